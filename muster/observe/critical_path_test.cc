#include "muster/observe/critical_path.h"

#include <gtest/gtest.h>

#include "muster/base/testing/sanitized.h"

namespace muster::observe {
namespace {

using std::chrono::milliseconds;

Span path_span(Track track, int worker, const char* name, int from, int until, int step = 1) {
  return {.track = track,
          .name = name,
          .worker = worker,
          .step = Step{step},
          .begin = TimePoint{} + milliseconds(from),
          .duration = milliseconds(until - from)};
}

Span summed(int worker, int from, int until, std::uint64_t number = 1) {
  Span span = path_span(Track::kCommunication, worker, "all_reduce", from, until);
  span.number = number;
  return span;
}

std::map<std::string, Duration> shares_of(const CriticalPath& path) {
  std::map<std::string, Duration> all;
  for (const PathShare& share : path.summary().shares) {
    std::string key = share.what;
    if (share.worker >= 0) key += "@" + std::to_string(share.worker);
    all[key] = share.time;
  }
  return all;
}

// A step of 100 ms of two workers: 0 computes until 30 and waits for 1, whose backward ends at 70.
std::vector<Span> a_step() {
  std::vector<Span> spans;
  for (int worker = 0; worker < 2; ++worker) {
    const int computed = worker == 0 ? 30 : 70;
    spans.push_back(path_span(Track::kPhases, worker, "waiting for data", 0, 5));
    spans.push_back(path_span(Track::kLane, worker, "forward", 5, 15));
    spans.push_back(path_span(Track::kLane, worker, "backward", 15, computed));
    spans.push_back(summed(worker, computed, 80));
    spans.push_back(path_span(Track::kPhases, worker, "computing", 5, 82));
    spans.push_back(path_span(Track::kPhases, worker, "updating", 82, 100 - worker));
    spans.push_back(path_span(Track::kSteps, worker, "step", 0, 100 - worker));
  }
  return spans;
}

TEST(CriticalPath, LeadsThroughTheWorkerThatTheOthersWaitedFor) {
  CriticalPath path;
  path.enter(Generation{0}, 2);
  for (const Span& span : a_step()) path.add(span);
  EXPECT_EQ(path.summary().steps, 1);
  EXPECT_EQ(shares_of(path),
            (std::map<std::string, Duration>{{"updating@0", milliseconds(18)},
                                             {"computing@0", milliseconds(2)},
                                             {"all_reduce", milliseconds(10)},
                                             {"backward@1", milliseconds(55)},
                                             {"forward@1", milliseconds(10)},
                                             {"waiting for data@1", milliseconds(5)}}));
  EXPECT_EQ(
      describe(path.summary()),
      "55 % backward on worker 1, 18 % updating on worker 0, 10 % all_reduce, 10 % forward on "
      "worker 1, 5 % waiting for data on worker 1, 2 % other");
}

TEST(CriticalPath, IsOfWholeStepsOnly) {
  CriticalPath path;
  path.enter(Generation{0}, 3);
  for (const Span& span : a_step()) path.add(span);  // the third was lost
  EXPECT_EQ(path.summary().steps, 0);
  EXPECT_EQ(describe(path.summary()), "");
  path.enter(Generation{0}, 2);
  for (Span span : a_step()) {
    if (span.worker == 1) span.generation = Generation{1};
    span.step = Step{2};
    path.add(span);
  }
  EXPECT_EQ(path.summary().steps, 0);
}

TEST(CriticalPath, CountsEachStepOnceAndNoneThatBrokeOff) {
  CriticalPath path;
  path.enter(Generation{1}, 2);
  const auto tell = [&](int step, int generation, const char* name) {
    for (Span span : a_step()) {
      span.step = Step{step};
      span.generation = Generation(static_cast<std::uint64_t>(generation));
      if (span.track == Track::kSteps) span.name = name;
      path.add(span);
    }
  };
  tell(0, 1, "start");
  tell(1, 1, "step");
  tell(2, 1, "broken off");
  path.enter(Generation{2}, 2);
  tell(2, 1, "step");  // of the generation before
  tell(1, 2, "recovery");
  tell(1, 2, "step");
  EXPECT_EQ(path.summary().steps, 1);
  tell(2, 2, "step");
  tell(3, 2, "step");
  EXPECT_EQ(path.summary().steps, 3);
  path.go_back(Step{1});
  tell(2, 2, "step");
  EXPECT_EQ(path.summary().steps, 4);
}

TEST(CriticalPath, DoesNotCountWhatComputingHid) {
  CriticalPath path;
  for (const Span& span : {path_span(Track::kLane, 0, "backward", 0, 24),
                           path_span(Track::kLane, 0, "backward", 26, 40), summed(0, 5, 25),
                           path_span(Track::kPhases, 0, "computing", 0, 40),
                           path_span(Track::kSteps, 0, "step", 0, 40)})
    path.add(span);
  EXPECT_EQ(shares_of(path), (std::map<std::string, Duration>{{"backward@0", milliseconds(38)},
                                                              {"computing@0", milliseconds(1)},
                                                              {"all_reduce", milliseconds(1)}}));
}

TEST(CriticalPath, AsLongAsTheStepWhateverTheClocksSay) {
  std::vector<Span> spans = a_step();
  for (Span& span : spans)
    if (span.worker == 1) span.begin += milliseconds(25);  // its all_reduce ends after the step
  CriticalPath path;
  path.enter(Generation{0}, 2);
  for (const Span& span : spans) path.add(span);
  Duration whole{0};
  for (const PathShare& share : path.summary().shares) whole += share.time;
  EXPECT_GE(whole, milliseconds(95));
  EXPECT_LE(whole, milliseconds(125));
}

TEST(CriticalPath, StaysWithAWorkerThroughWhatOnlyItKnows) {
  CriticalPath path;
  for (const Span& span : {path_span(Track::kLane, 0, "forward", 0, 10),
                           path_span(Track::kCommunication, 0, "recv", 8, 40),
                           path_span(Track::kLane, 0, "backward", 40, 60),
                           path_span(Track::kPhases, 0, "computing", 0, 60),
                           path_span(Track::kSteps, 0, "step", 0, 60)})
    path.add(span);
  EXPECT_EQ(shares_of(path), (std::map<std::string, Duration>{{"backward@0", milliseconds(20)},
                                                              {"recv@0", milliseconds(30)},
                                                              {"forward@0", milliseconds(10)}}));
}

TEST(CriticalPath, IsFoundAtOnceInAStepOfManySpans) {
  CriticalPath path;
  constexpr int kMany = kSanitized ? 20000 : 200000;
  for (int i = 0; i < kMany; ++i) {
    path.add(path_span(Track::kLane, 0, "forward", i, i + 1));
    path.add(path_span(Track::kCommunication, 0, "send", i + 1, i + 1));  // takes no time
  }
  path.add(path_span(Track::kPhases, 0, "computing", 0, kMany));
  path.add(path_span(Track::kSteps, 0, "step", 0, kMany));
  EXPECT_EQ(shares_of(path), (std::map<std::string, Duration>{{"forward@0", milliseconds(kMany)}}));
}

TEST(CriticalPath, ForgetsStepsThatNobodyEnds) {
  CriticalPath path;
  path.enter(Generation{0}, 2);
  for (int step = 1; step <= 10000; ++step)
    path.add(path_span(Track::kSteps, 0, "step", 0, 1, step));
  EXPECT_EQ(path.summary().steps, 0);
}

}  // namespace
}  // namespace muster::observe
