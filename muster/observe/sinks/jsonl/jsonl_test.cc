#include "muster/observe/sinks/jsonl/jsonl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/observe/record_json.h"
#include "muster/testing/fake_clock.h"
#include "muster/testing/faulty_files.h"
#include "muster/testing/memory_files.h"

namespace muster::observe {
namespace {

using ::testing::HasSubstr;

const Path kPath = "/metrics.jsonl";

Record note(const std::string& text) { return Notice{Severity::kNote, text}; }

void ignore(const Error&) {}

TEST(JsonlSink, WritesALineForEachRecordAtOnce) {
  testing::MemoryFiles files;
  const auto sink = create_jsonl_sink(files, kPath, system_clock(), ignore);
  ASSERT_TRUE(sink) << sink.error().message;
  (*sink)->take(note("one"));
  EXPECT_EQ(*files.read(kPath), to_json_line(note("one")) + "\n");
  (*sink)->take(Span{});  // for traces
  (*sink)->take(note("two\nlines"));
  EXPECT_EQ(read_json_lines(*files.read(kPath))->size(), 2u);
}

TEST(JsonlSink, AppendsToAnEarlierRuns) {
  testing::MemoryFiles files;
  for (const char* text : {"one", "two"}) {
    const auto sink = create_jsonl_sink(files, kPath, system_clock(), ignore);
    ASSERT_TRUE(sink);
    (*sink)->take(note(text));
  }
  EXPECT_EQ(*read_json_lines(*files.read(kPath)), (std::vector{note("one"), note("two")}));
}

TEST(JsonlSink, BeginsALineOfItsOwnAfterATornOne) {
  testing::MemoryFiles files;
  (*create_jsonl_sink(files, kPath, system_clock(), ignore))->take(note("one"));
  const std::string torn = R"({"type":"met)";
  ASSERT_TRUE((*files.open(kPath, Files::Open::kAppend))->append(std::as_bytes(std::span(torn))));
  RunStarted again;
  again.name = "two";
  (*create_jsonl_sink(files, kPath, system_clock(), ignore))->take(again);
  const auto records = read_json_lines(*files.read(kPath));
  ASSERT_TRUE(records) << records.error().message;
  EXPECT_EQ(*records, (std::vector<Record>{note("one"), again}));
}

TEST(JsonlSink, AFullDiskIsToldOnceAndItsLinesAreWrittenLater) {
  testing::MemoryFiles memory;
  testing::FaultyFiles files(memory);
  testing::FakeClock clock;
  std::vector<std::string> told;
  const auto sink = create_jsonl_sink(files, kPath, clock,
                                      [&](const Error& error) { told.push_back(error.message); });
  ASSERT_TRUE(sink);
  files.fail_at(0, testing::Fault::kShortWrite);
  (*sink)->take(note("one"));
  (*sink)->take(note("two"));
  clock.advance(std::chrono::seconds(1));
  (*sink)->take(note("three"));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], HasSubstr("[observe/jsonl] /metrics.jsonl cannot be written now"));
  EXPECT_EQ(*read_json_lines(*memory.read(kPath)),
            (std::vector{note("one"), note("two"), note("three")}));
}

TEST(JsonlSink, NamesTheStepsThatItLacks) {
  testing::MemoryFiles memory;
  testing::FaultyFiles files(memory);
  testing::FakeClock clock;
  std::vector<std::string> told;
  auto sink = create_jsonl_sink(files, kPath, clock,
                                [&](const Error& error) { told.push_back(error.message); });
  ASSERT_TRUE(sink);
  files.fail_at(0, testing::Fault::kNoSpace);
  for (const int step : {7, 8}) (*sink)->take(Metrics{.step = Step{step}, .values = {}});
  files.fail_at(0, testing::Fault::kNoSpace);
  sink->reset();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_THAT(told[1], HasSubstr("/metrics.jsonl lacks 2 lines, of steps 7 to 8"));
}

TEST(JsonlSink, NamesAFileThatCannotBeOpened) {
  const auto sink =
      create_jsonl_sink(system_files(), "/nonexistent/metrics.jsonl", system_clock(), ignore);
  ASSERT_FALSE(sink);
  EXPECT_THAT(sink.error().message, HasSubstr("/nonexistent/metrics.jsonl"));
}

}  // namespace
}  // namespace muster::observe
