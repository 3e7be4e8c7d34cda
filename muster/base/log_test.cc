#include "muster/base/log.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Log, WritesTextWithAMarkForWhatIsNotPlain) {
  ::testing::internal::CaptureStderr();
  const Logger logger = create_stderr_logger();
  logger->info("step {}", 7);
  logger->warn("slow");
  logger->error("gone");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "step 7\n[WARN] slow\n[ERROR] gone\n");
}

TEST(Log, BreaksTextsWhereTheTerminalEnds) {
  ::testing::internal::CaptureStderr();
  const Logger logger = create_stderr_logger(LogFormat::kText, 20);
  logger->warn("one two three four five");
  logger->info("short");
  create_stderr_logger(LogFormat::kJson, 20)->info("one two three four five");
  const std::string lines = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(lines.starts_with("[WARN] one two\n  three four five\nshort\n{")) << lines;
  EXPECT_TRUE(lines.ends_with("\"one two three four five\"}\n")) << lines;
}

TEST(Log, WritesOneJsonObjectALine) {
  ::testing::internal::CaptureStderr();
  create_stderr_logger(LogFormat::kJson)->warn("a \"b\"\\\n\x01 ü");
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(line.starts_with("{\"time\":\"20")) << line;
  EXPECT_TRUE(line.ends_with(
      "Z\",\"level\":\"warning\",\"message\":\"a \\\"b\\\"\\\\\\u000a\\u0001 ü\"}\n"))
      << line;
}

TEST(Log, KeepsQuietWhenTold) {
  ::testing::internal::CaptureStderr();
  create_null_logger()->error("nobody hears this");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace muster
