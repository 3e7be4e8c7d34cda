#include "muster/observe/sinks/trace/trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/testing/fake_clock.h"
#include "muster/testing/faulty_files.h"
#include "muster/testing/memory_files.h"

namespace muster::observe {
namespace {

using Json = nlohmann::json;

const Path kTracePath = "/run/trace/trace.json";

class TraceSinkTest : public ::testing::Test {
 protected:
  std::shared_ptr<Sink> open() {
    auto sink = create_trace_sink(files_, kTracePath, clock_, [](const Error&) {});
    EXPECT_TRUE(sink) << sink.error().message;
    return *sink;
  }
  Span span(Track track, int worker, const std::string& name) const {
    return {.track = track,
            .name = name,
            .worker = worker,
            .step = Step{4},
            .begin = clock_.now() + Duration(1500900),
            .duration = Duration(2200)};
  }
  std::string text() { return *files_.read(kTracePath); }

  testing::FakeClock clock_;
  testing::MemoryFiles files_;
};

std::vector<Json> of_kind(const Json& events, const std::string& kind) {
  std::vector<Json> all;
  for (const Json& event : events)
    if (event.at("ph") == kind) all.push_back(event);
  return all;
}

TEST_F(TraceSinkTest, WritesSpansAsEventsOfNamedProcessesAndThreads) {
  auto sink = open();
  Span operation = span(Track::kCommunication, 1, "all_reduce");
  operation.lane = 1;
  operation.detail = "sum F32 [8] (gradients/\"0\")";
  operation.number = 9;
  operation.bytes = 32;
  for (const Record& record :
       {Record(span(Track::kSteps, 0, "step")), Record(span(Track::kSteps, 0, "step")),
        Record(Notice{Severity::kNote, "for others"}), Record(operation)})
    sink->take(record);
  sink.reset();
  const Json events = Json::parse(text());
  const auto spans = of_kind(events, "X");
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].at("name"), "step 4");
  EXPECT_EQ(spans[0].at("ts"), 1500);
  EXPECT_EQ(spans[0].at("dur"), 3);
  EXPECT_EQ(spans[2].at("args"), (Json{{"step", 4},
                                       {"rank", 0},
                                       {"generation", 0},
                                       {"of", operation.detail},
                                       {"number", 9},
                                       {"bytes", 32}}));
  std::vector<std::string> names;
  for (const Json& event : of_kind(events, "M"))
    if (event.at("args").contains("name")) names.push_back(event.at("args").at("name"));
  EXPECT_EQ(names, (std::vector<std::string>{"worker 0", "steps", "worker 1", "communication 2"}));
}

TEST_F(TraceSinkTest, IsReadableAtAnyTimeButForItsEnd) {
  const auto sink = open();
  sink->take(span(Track::kLane, 0, "forward"));
  sink->take(span(Track::kLane, 0, "back\xff"));
  EXPECT_EQ(Json::parse(text() + "]").back().at("ph"), "X");
}

TEST_F(TraceSinkTest, KeepsWhatFollowsOnATrackApart) {
  auto sink = open();
  Span one = span(Track::kLane, 0, "one");
  one.duration = std::chrono::microseconds(100);
  Span two = one;
  two.begin = one.end() - std::chrono::microseconds(3);
  for (const Span& each : {one, two}) sink->take(each);
  two.worker = 1;
  sink->take(two);
  sink.reset();
  const auto spans = of_kind(Json::parse(text()), "X");
  EXPECT_EQ(spans[1].at("ts"), 1600);
  EXPECT_EQ(spans[1].at("dur"), 97);
  EXPECT_EQ(spans[2].at("ts"), 1597);
}

TEST_F(TraceSinkTest, IsAnEmptyArrayWhereNothingWasTraced) {
  open();
  EXPECT_EQ(Json::parse(text()), Json::array());
}

TEST(TraceSink, PassesOnWhatItsQueueLeftOut) {
  testing::MemoryFiles files;
  const testing::FakeClock clock;
  std::vector<std::string> told;
  const auto sink = create_trace_sink(files, kTracePath, clock,
                                      [&](const Error& error) { told.push_back(error.message); });
  ASSERT_TRUE(sink);
  (*sink)->take(Notice{Severity::kNote, "for people"});
  (*sink)->take(Notice{Severity::kWarning, "7 records were left out"});
  EXPECT_EQ(told, std::vector<std::string>{"[observe/trace] 7 records were left out"});
}

TEST(TraceSink, AFullDiskIsToldOnceAndTheTraceIsWholeAfterIt) {
  testing::MemoryFiles memory;
  testing::FaultyFiles files(memory);
  testing::FakeClock clock;
  int told = 0;
  auto sink = create_trace_sink(files, kTracePath, clock, [&](const Error&) { ++told; });
  ASSERT_TRUE(sink);
  files.fail_at(0, testing::Fault::kShortWrite);
  (*sink)->take(Span{.name = "one"});
  (*sink)->take(Span{.name = "two"});
  clock.advance(std::chrono::seconds(1));
  (*sink)->take(Span{.name = "three"});
  sink->reset();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(of_kind(Json::parse(*memory.read(kTracePath)), "X").size(), 3u);
}

}  // namespace
}  // namespace muster::observe
