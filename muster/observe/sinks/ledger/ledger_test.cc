#include "muster/observe/sinks/ledger/ledger.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "muster/testing/fake_clock.h"
#include "muster/testing/faulty_files.h"
#include "muster/testing/memory_files.h"

namespace muster::observe {
namespace {

class LedgerSinkTest : public ::testing::Test {
 protected:
  std::shared_ptr<Sink> open() {
    return create_ledger_sink(files_, "/ledger.jsonl", clock_, [](const Error&) {}).value();
  }
  std::vector<std::string> lines() {
    std::vector<std::string> lines;
    std::string text = files_.read("/ledger.jsonl").value();
    for (std::size_t end = 0; (end = text.find('\n')) != text.npos; text.erase(0, end + 1))
      lines.push_back(text.substr(0, end));
    return lines;
  }
  static StepCommitted step(std::int64_t number, std::uint64_t generation, std::int64_t epoch,
                            std::int64_t begin) {
    return {Step{number}, Generation{generation}, epoch, begin, begin + 10, 5};
  }

  testing::MemoryFiles files_;
  testing::FakeClock clock_;
};

TEST_F(LedgerSinkTest, StepsOfOneEpochAndGenerationShareALine) {
  const auto sink = open();
  for (const auto& one : {step(1, 1, 0, 0), step(2, 1, 0, 10), step(3, 2, 0, 20), step(4, 2, 1, 0)})
    sink->take(one);
  sink->take(RunEnded{});
  const auto written = lines();
  ASSERT_EQ(written.size(), 3U);
  EXPECT_TRUE(written[0].starts_with(
      R"({"generation":1,"steps":[1,2],"epoch":0,"positions":[0,20],"roll":10,"hash":")"))
      << written[0];
  EXPECT_TRUE(written[2].starts_with(R"({"generation":2,"steps":[4,4],"epoch":1,)")) << written[2];
}

TEST_F(LedgerSinkTest, WhereItWentBackToIsALine) {
  const auto sink = open();
  sink->take(step(1, 1, 0, 0));
  sink->take(WentBack{Step{0}, Generation{2}});
  sink->take(step(1, 2, 0, 0));
  sink->take(RunEnded{});
  const auto written = lines();
  ASSERT_EQ(written.size(), 3U);
  EXPECT_TRUE(written[1].starts_with(R"({"generation":2,"back_to":0,"hash":")")) << written[1];
}

TEST_F(LedgerSinkTest, ALineIsHeldBackForASecondAtMost) {
  const auto sink = open();
  sink->take(step(1, 1, 0, 0));
  EXPECT_EQ(lines().size(), 0U);
  clock_.advance(std::chrono::seconds(1));
  sink->take(step(2, 1, 0, 10));
  EXPECT_EQ(lines().size(), 1U);
}

// Else a launcher that is killed would leave no trace of steps that took longer than that.
TEST_F(LedgerSinkTest, AStepThatComesLaterThanThatIsWrittenAtOnce) {
  const auto sink = open();
  for (std::int64_t number = 1; number <= 3; ++number) {
    clock_.advance(std::chrono::seconds(2));
    sink->take(step(number, 1, 0, (number - 1) * 10));
    EXPECT_EQ(lines().size(), static_cast<std::size_t>(number));
  }
}

TEST_F(LedgerSinkTest, AFullDiskLosesNoLine) {
  testing::FaultyFiles full(files_);
  auto sink = create_ledger_sink(full, "/ledger.jsonl", clock_, [](const Error&) {}).value();
  full.fail_at(0, testing::Fault::kShortWrite);
  for (std::int64_t number = 1; number <= 3; ++number) {
    sink->take(step(number, static_cast<std::uint64_t>(number), 0, (number - 1) * 10));
    sink->take(CheckpointWritten{});
  }
  EXPECT_EQ(lines().size(), 0U);
  sink.reset();
  const auto written = lines();
  ASSERT_EQ(written.size(), 3U);
  for (std::size_t line = 0; line < 3; ++line)
    EXPECT_TRUE(written[line].starts_with(fmt::format(R"({{"generation":{},"steps")", line + 1)))
        << written[line];
}

TEST_F(LedgerSinkTest, TheChainGoesOnAfterARestartAndATornLine) {
  open()->take(step(1, 1, 0, 0));
  const std::string first = lines().at(0);
  {
    const auto file = files_.open("/ledger.jsonl", Files::Open::kAppend).value();
    ASSERT_TRUE(file->append(std::as_bytes(std::span("{\"gener", 7))));
  }
  RunStarted started;
  started.first_step = Step{1};
  open()->take(started);
  const auto written = lines();
  ASSERT_EQ(written.size(), 3U);
  const auto cut = [](const std::string& line) { return line.find(",\"hash\""); };
  const std::string hash = first.substr(cut(first) + 9, 16);
  EXPECT_EQ(written[2].substr(cut(written[2]) + 9, 16),
            ledger_hash(hash, written[2].substr(0, cut(written[2]))));
}

}  // namespace
}  // namespace muster::observe
