#include "muster/observe/sinks/jsonl/jsonl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/observe/record_json.h"
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
  const auto sink = create_jsonl_sink(files, kPath, ignore);
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
    const auto sink = create_jsonl_sink(files, kPath, ignore);
    ASSERT_TRUE(sink);
    (*sink)->take(note(text));
  }
  EXPECT_EQ(*read_json_lines(*files.read(kPath)), (std::vector{note("one"), note("two")}));
}

TEST(JsonlSink, BeginsALineOfItsOwnAfterATornOne) {
  testing::MemoryFiles files;
  (*create_jsonl_sink(files, kPath, ignore))->take(note("one"));
  const std::string torn = R"({"type":"met)";
  ASSERT_TRUE((*files.open(kPath, Files::Open::kAppend))->append(std::as_bytes(std::span(torn))));
  RunStarted again;
  again.name = "two";
  (*create_jsonl_sink(files, kPath, ignore))->take(again);
  const auto records = read_json_lines(*files.read(kPath));
  ASSERT_TRUE(records) << records.error().message;
  EXPECT_EQ(*records, (std::vector<Record>{note("one"), again}));
}

TEST(JsonlSink, TellsOnceThatTheDiskIsFull) {
  testing::MemoryFiles memory;
  testing::FaultyFiles files(memory);
  int told = 0;
  std::string message;
  const auto sink = create_jsonl_sink(files, kPath, [&](const Error& error) {
    ++told;
    message = error.message;
  });
  ASSERT_TRUE(sink);
  files.fail_at(0, testing::Fault::kNoSpace);
  (*sink)->take(note("lost"));
  (*sink)->take(note("not tried"));
  EXPECT_EQ(told, 1);
  EXPECT_THAT(message, HasSubstr("metrics are no longer written"));
  EXPECT_EQ(*memory.read(kPath), "");
}

TEST(JsonlSink, NamesAFileThatCannotBeOpened) {
  const auto sink = create_jsonl_sink(system_files(), "/nonexistent/metrics.jsonl", ignore);
  ASSERT_FALSE(sink);
  EXPECT_THAT(sink.error().message, HasSubstr("/nonexistent/metrics.jsonl"));
}

}  // namespace
}  // namespace muster::observe
