#include "muster/observe/sinks/tensorboard/tensorboard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <vector>

#include "muster/observe/sinks/tensorboard/event_record.h"
#include "muster/testing/fake_clock.h"
#include "muster/testing/faulty_files.h"
#include "muster/testing/memory_files.h"

namespace muster::observe {
namespace {

const Path kPath = "/run/events.out.tfevents.1795264496.muster";
const WallTime kNow{std::chrono::seconds(1795264496)};

std::uint32_t unmasked(std::uint32_t masked) { return std::rotl(masked - 0xA282EAD8u, 15); }

template <class T>
T read_fixed(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// The messages of a file of whole records.
std::vector<std::string> messages_in(std::string_view file) {
  std::vector<std::string> messages;
  while (!file.empty()) {
    const auto length = read_fixed<std::uint64_t>(file, 0);
    EXPECT_EQ(unmasked(read_fixed<std::uint32_t>(file, 8)), crc32c(file.substr(0, 8)));
    messages.emplace_back(file.substr(12, length));
    EXPECT_EQ(unmasked(read_fixed<std::uint32_t>(file, 12 + length)), crc32c(messages.back()));
    file.remove_prefix(16 + length);
  }
  return messages;
}

TEST(EventRecord, HasTheChecksumOfTheSpecification) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
}

TEST(EventRecord, IsAnEventAsProtocolBuffersHaveIt) {
  const std::vector<Metric> values{{"a", 0.5}};
  const std::string record = scalar_record(1.0, 300, values);
  const std::string event(
      "\x09\0\0\0\0\0\0\xF0\x3F"  // wall_time 1.0
      "\x10\xAC\x02"              // step 300
      "\x2A\x0A\x0A\x08"          // summary, value
      "\x0A\x01"
      "a"                // tag
      "\x15\0\0\0\x3F",  // simple_value 0.5
      24);
  EXPECT_EQ(messages_in(record), std::vector{event});
}

class TensorboardSinkTest : public ::testing::Test {
 protected:
  TensorboardSinkTest() { clock_.advance(kNow - clock_.wall()); }

  testing::FakeClock clock_;
};

TEST_F(TensorboardSinkTest, BeginsWithItsVersionAndHasARecordForEachRow) {
  testing::MemoryFiles files;
  ASSERT_TRUE(files.create_folders("/run"));
  const auto sink = create_tensorboard_sink(files, "/run", clock_, [](const Error&) {});
  ASSERT_TRUE(sink) << sink.error().message;
  (*sink)->take(Metrics{.step = Step{1}, .values = {{"train/loss", 2.5}, {"perf/x", 1}}});
  (*sink)->take(Notice{Severity::kNote, "not a number"});
  (*sink)->take(Metrics{.step = Step{2}, .values = {{"eval/loss", 2.25}}});
  const auto messages = messages_in(*files.read(kPath));
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_NE(messages[0].find("brain.Event:2"), std::string::npos);
  EXPECT_NE(messages[1].find("train/loss"), std::string::npos);
  EXPECT_NE(messages[1].find("perf/x"), std::string::npos);
  EXPECT_NE(messages[2].find("eval/loss"), std::string::npos);
  EXPECT_EQ(tensorboard_file(kNow), kPath.filename());
}

TEST_F(TensorboardSinkTest, HasAFileForEachStartThoughInTheSameSecond) {
  testing::MemoryFiles files;
  ASSERT_TRUE(files.create_folders("/run"));
  for (int start = 0; start < 3; ++start) {
    const auto sink = create_tensorboard_sink(files, "/run", clock_, [](const Error&) {});
    ASSERT_TRUE(sink) << sink.error().message;
    (*sink)->take(Metrics{.step = Step{start}, .values = {{"train/loss", 2.5}}});
  }
  for (int start = 0; start < 3; ++start) {
    const Path path = Path("/run") / tensorboard_file(kNow + std::chrono::seconds(start));
    EXPECT_EQ(messages_in(*files.read(path)).size(), 2u) << path;
  }
}

TEST_F(TensorboardSinkTest, SaysFromWhichStepOnARunIsResumed) {
  testing::MemoryFiles files;
  ASSERT_TRUE(files.create_folders("/run"));
  const auto sink = create_tensorboard_sink(files, "/run", clock_, [](const Error&) {});
  ASSERT_TRUE(sink) << sink.error().message;
  RunStarted started;
  (*sink)->take(started);
  started.first_step = Step{40};
  (*sink)->take(started);
  const auto messages = messages_in(*files.read(kPath));
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[1].substr(9), std::string("\x10\x29\x3A\x02\x08\x01"));  // step 41, START
}

// A reader of TensorBoard's gives up at a record that is torn.
TEST_F(TensorboardSinkTest, AFullDiskIsToldOnceAndLeavesNoTornRecord) {
  testing::MemoryFiles memory;
  testing::FaultyFiles files(memory);
  ASSERT_TRUE(memory.create_folders("/run"));
  int told = 0;
  const auto sink = create_tensorboard_sink(files, "/run", clock_, [&](const Error&) { ++told; });
  ASSERT_TRUE(sink);
  files.fail_at(0, testing::Fault::kShortWrite);
  for (int step = 0; step < 3; ++step) (*sink)->take(Metrics{.step = Step{step}, .values = {}});
  EXPECT_EQ(told, 1);
  clock_.advance(std::chrono::seconds(1));
  (*sink)->take(Metrics{.step = Step{3}, .values = {}});
  EXPECT_EQ(messages_in(*memory.read(kPath)).size(), 5u);
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace muster::observe
