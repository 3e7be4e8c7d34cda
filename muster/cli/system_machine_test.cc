#include <gtest/gtest.h>

#include "muster/cli/machine.h"

namespace muster::cli {
namespace {

Result<std::string> output_of(const char* script) {
  return system_machine().output_of({"/bin/sh", "-c", script}, std::chrono::seconds(60));
}

TEST(SystemMachine, GivesWhatAProgramPrints) {
  EXPECT_EQ(output_of("echo yes; echo no >&2").value(), "yes\n");
}

TEST(SystemMachine, TheExitCodeSaysWhatKindOfErrorItIs) {
  const auto wrong = output_of("echo why; exit 2");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error(), fail(ErrorCode::kInvalid, "why"));
  EXPECT_EQ(output_of("exit 1").error().code, ErrorCode::kInternal);
  EXPECT_EQ(output_of("exit 3").error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(output_of("exit 4").error().code, ErrorCode::kNumeric);
}

TEST(SystemMachine, OfAProgramWithoutAWordItSaysHowItEnded) {
  EXPECT_NE(output_of("exit 7").error().message.find("/bin/sh ended with exit code 7"),
            std::string::npos);
  const Error killed = output_of("kill -9 $$").error();
  EXPECT_EQ(killed.code, ErrorCode::kUnavailable);
  EXPECT_NE(killed.message.find("/bin/sh was ended by Killed"), std::string::npos)
      << killed.message;
}

TEST(SystemMachine, AProgramMayWriteAsManyErrorsAsItLikes) {
  EXPECT_EQ(output_of("head -c 1000000 /dev/zero >&2; echo yes").value(), "yes\n");
}

TEST(SystemMachine, NothingIsLeftOfAProgramThatDoesNotAnswer) {
  const auto late = system_machine().output_of({"/bin/sh", "-c", "echo $$; sleep 1000 & wait"},
                                               std::chrono::milliseconds(300));
  EXPECT_EQ(late.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(output_of("echo yes; sleep 1000 &").value(), "yes\n");
}

TEST(SystemMachine, WhatCannotBeStartedIsNamed) {
  const auto none = system_machine().output_of({"/etc/passwd"}, std::chrono::seconds(60));
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("/etc/passwd: Permission denied"), std::string::npos)
      << none.error().message;
}

}  // namespace
}  // namespace muster::cli
