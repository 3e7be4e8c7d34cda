#include "muster/observe/sinks/mlflow/mlflow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>

#include "muster/observe/sinks/mlflow/testing/fake_tracking.h"
#include "muster/observe/sinks/mlflow/unsent.h"
#include "muster/testing/fake_clock.h"
#include "muster/testing/memory_files.h"

namespace muster::observe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FakeTracking;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr seconds kHang{60};  // a bound on one, no measurement

Metrics loss_row(int step, double loss = 0.5, const std::string& name = "train/loss") {
  Metrics row;
  row.step = Step{step};
  row.time = WallTime(milliseconds(1000 + step));
  row.values = {{name, loss}};
  return row;
}

class MlflowTest : public ::testing::Test {
 protected:
  MlflowTest() {
    run_ = {.tracking_uri = "http://tracking",
            .experiment = "fashion",
            .name = "first try",
            .id = "20261126T204203Z-8d4246",
            .params = {{"model.type", "mlp"}, {"training.max_steps", "100"}},
            .tags = {{"mlflow.user", "ada"}},
            .record = "/run/mlflow.json"};
    EXPECT_TRUE(files_.create_folders("/run"));
  }

  void begin() {
    sink_ =
        create_mlflow_sink(there_->connect(), run_, files_, clock_, [this](const Notice& notice) {
          const std::lock_guard lock(mutex_);
          (notice.severity == Severity::kNote ? notes_ : warnings_).push_back(notice.text);
        });
  }
  void begin_run() {
    begin();
    sink_->take(RunStarted{});
  }
  // Time goes on until it is so.
  template <class Condition>
  void until(Condition is_so, Duration a_look = milliseconds(100)) {
    const auto hang = std::chrono::steady_clock::now() + kHang;
    while (!is_so() && std::chrono::steady_clock::now() < hang) {
      clock_.advance(a_look);
      std::this_thread::sleep_for(milliseconds(1));
    }
    ASSERT_TRUE(is_so());
  }
  void pass(Duration time) {
    const TimePoint end = clock_.now() + time;
    until([&] { return clock_.now() >= end; }, seconds(1));
  }
  // Slowly, so that a server that answers is not taken for one that does not on a busy machine.
  void finish(RunState state = RunState::kFinished, std::vector<Path> artifacts = {},
              Duration a_look = milliseconds(2)) {
    std::atomic<bool> done = false;
    std::thread ending([&] {
      sink_->finish(state, std::move(artifacts), std::chrono::minutes(2));
      done = true;
    });
    until([&] { return done.load(); }, a_look);
    ending.join();
  }
  void give_up() { finish(RunState::kFinished, {}, milliseconds(10)); }  // on one that does not
  std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }
  std::vector<std::string> notes() {
    const std::lock_guard lock(mutex_);
    return notes_;
  }

  testing::FakeClock clock_;
  testing::MemoryFiles files_;
  std::shared_ptr<FakeTracking> there_ = std::make_shared<FakeTracking>();
  MlflowRun run_;
  std::mutex mutex_;
  std::vector<std::string> notes_;     // guarded by mutex_
  std::vector<std::string> warnings_;  // likewise
  std::shared_ptr<MlflowSink> sink_;
};

TEST_F(MlflowTest, TellsARunItsParametersNumbersAndEnd) {
  begin_run();
  sink_->take(loss_row(1, 2.5));
  sink_->take(loss_row(2, 2.25));
  sink_->take(loss_row(2, 0.5, "eval/accuracy"));
  until([&] { return there_->run().metrics.size() == 3; });
  EXPECT_EQ(there_->run().status, "RUNNING");
  RunEnded ended;
  ended.step = Step{2};
  ended.results = {{"eval/accuracy", 0.5}, {"mem/peak_rss_gib", 0.25}};
  sink_->take(ended);
  finish();
  const FakeTracking::Run run = there_->run();
  EXPECT_EQ(run.experiment, "fashion");
  EXPECT_EQ(run.name, "first try");
  EXPECT_EQ(run.status, "FINISHED");
  EXPECT_THAT(run.params,
              ElementsAre(std::pair("model.type", "mlp"), std::pair("training.max_steps", "100")));
  EXPECT_EQ(run.tags.at("muster.run"), run_.id);
  EXPECT_EQ(run.tags.at("mlflow.user"), "ada");
  EXPECT_THAT(run.metrics,
              ElementsAre("train/loss 1 2.5 @1001", "train/loss 2 2.25 @1002",
                          "eval/accuracy 2 0.5 @1002", HasSubstr("mem/peak_rss_gib 2 0.25 @")));
  EXPECT_THAT(notes(), ElementsAre("run in MLflow: http://tracking/#/experiments/7/runs/run-1"));
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(MlflowTest, SendsStepsAsOftenAsAskedAndTheLastOne) {
  run_.every = 10;
  begin_run();
  for (int step = 1; step <= 23; ++step) sink_->take(loss_row(step, 1.0));
  sink_->take(loss_row(15, 1.0, "eval/loss"));
  sink_->take(RunEnded{});
  finish();
  EXPECT_THAT(there_->run().metrics,
              ElementsAre("train/loss 10 1.0 @1010", "train/loss 20 1.0 @1020",
                          "eval/loss 15 1.0 @1015", "train/loss 23 1.0 @1023"));
}

TEST_F(MlflowTest, SendsWhatComesWithSomeStepsOnlyWhereverItFell) {
  run_.every = 10;
  begin_run();
  Metrics both = loss_row(5, 1.0);
  both.values.push_back({"mem/peak_rss_gib", 0.25});
  for (int step = 1; step <= 12; ++step) sink_->take(step == 5 ? both : loss_row(step, 1.0));
  sink_->take(RunEnded{});
  finish();
  EXPECT_THAT(there_->run().metrics,
              ElementsAre("mem/peak_rss_gib 5 0.25 @1005", "train/loss 10 1.0 @1010",
                          "train/loss 12 1.0 @1012"));
}

TEST_F(MlflowTest, WritesWhatJsonHasNoNumberFor) {
  begin_run();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  sink_->take(loss_row(1, std::numeric_limits<double>::quiet_NaN()));
  sink_->take(loss_row(2, kInfinity));
  sink_->take(loss_row(3, -kInfinity));
  finish();
  EXPECT_THAT(there_->run().metrics,
              ElementsAre("train/loss 1 \"NaN\" @1001", "train/loss 2 \"Infinity\" @1002",
                          "train/loss 3 \"-Infinity\" @1003"));
}

TEST_F(MlflowTest, KeepsWithinTheLimitsOfARequest) {
  run_.params.clear();
  for (int i = 0; i < 250; ++i) run_.params.push_back({fmt::format("p{:03}", i), "x"});
  run_.params.push_back({"long", std::string(5998, 'x') + "ßß"});
  begin();
  for (int step = 1; step <= 2500; ++step) sink_->take(loss_row(step));
  sink_->take(RunStarted{});
  until([&] { return there_->run().metrics.size() >= 2000; });  // full requests go at once
  finish();
  EXPECT_THAT(there_->run().params, SizeIs(251));
  EXPECT_EQ(there_->run().params.at("long"), std::string(5997, 'x') + "...");
  EXPECT_THAT(there_->run().metrics, SizeIs(2500));
  EXPECT_EQ(there_->run().metrics.back(), "train/loss 2500 0.5 @3500");
  EXPECT_LE(there_->most_entries(), 1000U);
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(MlflowTest, CatchesUpWithAServerThatComesLate) {
  there_->set(FakeTracking::State::kAway);
  begin_run();
  for (int step = 1; step <= 3000; ++step) sink_->take(loss_row(step));
  pass(std::chrono::minutes(5));
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("http://tracking: nobody")));
  there_->set(FakeTracking::State::kUp);
  until([&] { return there_->run().metrics.size() == 3000; });
  EXPECT_EQ(there_->run().metrics[1999], "train/loss 2000 0.5 @3000");
  finish();
  EXPECT_THAT(warnings(), SizeIs(1));
  EXPECT_THAT(notes(), ElementsAre(HasSubstr("answers again"), HasSubstr("run in MLflow")));
}

TEST_F(MlflowTest, GoesOnWhereTheServerWasLost) {
  begin_run();
  sink_->take(loss_row(1));
  until([&] { return there_->run().metrics.size() == 1; });
  for (const auto state : {FakeTracking::State::kAway, FakeTracking::State::kBusy}) {
    there_->set(state);
    for (int step = 2; step <= 5; ++step) sink_->take(loss_row(step));
    pass(seconds(30));
    there_->set(FakeTracking::State::kUp);
  }
  finish();
  EXPECT_THAT(there_->run().metrics, SizeIs(9));
  EXPECT_EQ(there_->run().status, "FINISHED");
  EXPECT_THAT(warnings(), SizeIs(1));  // the second time is too soon after it
}

TEST_F(MlflowTest, MakesOneRunThoughAnAnswerIsLost) {
  there_->lose_answers_of("runs/create", 2);
  begin_run();
  sink_->take(loss_row(1));
  finish();
  EXPECT_EQ(there_->runs(), 1U);
  EXPECT_THAT(there_->run().metrics, SizeIs(1));
}

TEST_F(MlflowTest, TellsOnceWhyTheServerRefusesAndAsksNoMore) {
  there_->set(FakeTracking::State::kDenies);
  begin_run();
  sink_->take(loss_row(1));
  until([&] { return !warnings().empty(); });
  const auto asked = there_->asked();
  sink_->take(loss_row(2));
  pass(std::chrono::minutes(5));
  EXPECT_EQ(there_->asked(), asked);
  EXPECT_THAT(warnings(),
              ElementsAre(AllOf(HasSubstr("status 401: You are not authenticated"),
                                HasSubstr("MLFLOW_TRACKING_TOKEN"), HasSubstr("metrics.jsonl"))));
  finish();
  EXPECT_THAT(warnings(),
              ElementsAre(::testing::_, AllOf(HasSubstr("2 numbers"), HasSubstr("refused"))));
}

TEST_F(MlflowTest, SaysHowADeletedExperimentComesBack) {
  there_->delete_experiment("fashion");
  begin_run();
  finish();
  EXPECT_EQ(there_->runs(), 0U);
  EXPECT_THAT(warnings().at(0), HasSubstr("mlflow experiments restore --experiment-id 7"));
}

TEST_F(MlflowTest, TheEndWaitsForAServerThatIsAwayButNotForever) {
  begin_run();
  until([&] { return there_->runs() == 1; });
  there_->set(FakeTracking::State::kAway);
  for (int step = 1; step <= 4; ++step) sink_->take(loss_row(step));
  const TimePoint began = clock_.now();
  give_up();
  EXPECT_GE(clock_.now() - began, MlflowLimits().patience);
  EXPECT_LE(clock_.now() - began, std::chrono::minutes(1));
  EXPECT_THAT(warnings(),
              ElementsAre(HasSubstr("nobody"), AllOf(HasSubstr("4 numbers and how it ended"),
                                                     HasSubstr("/run/metrics.jsonl has all"))));
  EXPECT_THAT(notes().back(), HasSubstr("sending what is left to MLflow: 4 numbers"));
}

TEST_F(MlflowTest, TheEndDoesNotWaitForARequestThatHangs) {
  there_->set(FakeTracking::State::kHangs);
  begin_run();
  sink_->take(loss_row(1));
  give_up();
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("1 number and how it ended")));
}

// Whatever keeps it from arriving: all of it is there in the end.
TEST_F(MlflowTest, WhatTheServerLacksAtTheEndIsKeptAndSaidHowItIsSent) {
  run_.unsent = "/run/mlflow-unsent.jsonl";
  for (const auto state :
       {FakeTracking::State::kAway, FakeTracking::State::kHangs, FakeTracking::State::kDenies}) {
    there_ = std::make_shared<FakeTracking>();
    there_->set(state);
    warnings_.clear();
    begin_run();
    for (int step = 1; step <= 4; ++step) sink_->take(loss_row(step));
    sink_->take(RunEnded{});
    give_up();
    EXPECT_THAT(warnings().back(), AllOf(HasSubstr("4 numbers and how it ended"),
                                         HasSubstr("/run/mlflow-unsent.jsonl keeps it"),
                                         HasSubstr("`muster runs mlflow /run` sends it")));
    auto left = mlflow::read_unsent(files_, run_.unsent);
    ASSERT_TRUE(left) << left.error().message;
    left->run.record = run_.record;
    there_ = std::make_shared<FakeTracking>();
    const auto sent = mlflow::deliver(*left, *there_->connect(), files_,
                                      [](Severity, const std::string& text) { FAIL() << text; });
    ASSERT_TRUE(sent) << sent.error().message;
    EXPECT_THAT(there_->run().metrics,
                ElementsAre("train/loss 1 0.5 @1001", "train/loss 2 0.5 @1002",
                            "train/loss 3 0.5 @1003", "train/loss 4 0.5 @1004"));
    EXPECT_EQ(there_->run().status, "FINISHED");
    for (const Path& file : {run_.unsent, run_.record}) ASSERT_TRUE(files_.remove_all(file));
  }
}

TEST_F(MlflowTest, AResumedRunSendsWhatTheFirstPartHasLeft) {
  run_.unsent = "/run/mlflow-unsent.jsonl";
  there_->set(FakeTracking::State::kAway);
  begin_run();
  sink_->take(loss_row(1));
  give_up();
  ASSERT_TRUE(files_.exists(run_.unsent));
  there_ = std::make_shared<FakeTracking>();
  begin_run();
  sink_->take(loss_row(2));
  finish();
  EXPECT_THAT(there_->run().metrics,
              ::testing::UnorderedElementsAre("train/loss 1 0.5 @1001", "train/loss 2 0.5 @1002"));
  EXPECT_FALSE(files_.exists(run_.unsent)) << "nothing is left";
}

TEST_F(MlflowTest, ARunThatNeverBeganIsNotTheServers) {
  begin();
  sink_->take(RunEnded{});
  finish(RunState::kFailed);
  EXPECT_EQ(there_->asked(), 0U);
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(MlflowTest, GivesTheServerTheFiles) {
  ASSERT_TRUE(write_atomically(files_, "/run/report.html", "<p>"));
  ASSERT_TRUE(write_atomically(files_, "/run/job.yaml", "name: x\n"));
  begin_run();
  finish(RunState::kFailed, {"/run/report.html", "/run/gone", "/run/job.yaml"});
  EXPECT_THAT(there_->run().artifacts,
              ElementsAre(std::pair("7/run-1/artifacts/job.yaml", "name: x\n"),
                          std::pair("7/run-1/artifacts/report.html", "<p>")));
  EXPECT_EQ(there_->run().status, "FAILED");
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("/run/gone")));
}

TEST_F(MlflowTest, SaysWhereFilesStayThatTheServerDoesNotTake) {
  there_->keep_artifacts_at("s3://bucket");
  ASSERT_TRUE(write_atomically(files_, "/run/report.html", "<p>"));
  begin_run();
  finish(RunState::kStopped, {"/run/report.html", "/run/report.html"});
  EXPECT_THAT(there_->run().artifacts, IsEmpty());
  EXPECT_EQ(there_->run().status, "KILLED");
  EXPECT_THAT(notes(), ElementsAre(HasSubstr("run in MLflow"),
                                   AllOf(HasSubstr("s3://bucket"), HasSubstr("stay in /run"))));
}

TEST_F(MlflowTest, AResumedRunGoesOnInTheSameOne) {
  begin_run();
  sink_->take(loss_row(1));
  finish(RunState::kStopped);
  run_.params = {{"model.type", "mlp"}, {"training.max_steps", "200"}, {"ema.decay", "0.9"}};
  begin_run();
  until([&] { return there_->run().status == "RUNNING"; });
  sink_->take(loss_row(2));
  finish();
  EXPECT_EQ(there_->runs(), 1U);
  EXPECT_EQ(there_->run().status, "FINISHED");
  EXPECT_THAT(there_->run().metrics, SizeIs(2));
  EXPECT_EQ(there_->run().params.at("training.max_steps"), "100");
  EXPECT_EQ(there_->run().params.at("ema.decay"), "0.9");
  EXPECT_EQ(there_->run().tags.at("resumed.training.max_steps"), "200");
  EXPECT_THAT(warnings(), IsEmpty());
}

TEST_F(MlflowTest, AResumedRunWhoseOldOneIsGoneSaysThatItGoesOnInANewOne) {
  begin_run();
  finish(RunState::kStopped);
  there_->forget_runs();
  begin_run();
  finish();
  EXPECT_EQ(there_->run().id, "run-2");
  EXPECT_THAT(warnings(), ElementsAre(AllOf(HasSubstr("run-1"), HasSubstr("in a new one"))));
}

TEST_F(MlflowTest, AnotherExperimentMakesAnotherRun) {
  begin_run();
  finish();
  run_.experiment = "other";
  begin_run();
  finish();
  EXPECT_EQ(there_->runs(), 2U);
}

TEST_F(MlflowTest, LeavesOutEverySecondStepAtTheLimitAndSaysSo) {
  there_->set(FakeTracking::State::kAway);
  sink_ = create_mlflow_sink(there_->connect(), run_, files_, clock_,
                             [this](const Notice& notice) {
                               const std::lock_guard lock(mutex_);
                               warnings_.push_back(notice.text);
                             },
                             {.kept = 10});
  sink_->take(RunStarted{});
  for (int step = 1; step <= 11; ++step) sink_->take(loss_row(step));
  there_->set(FakeTracking::State::kUp);
  finish();
  EXPECT_THAT(there_->run().metrics, SizeIs(6));
  EXPECT_THAT(warnings().back(), HasSubstr("5 numbers of this run were left out"));
}

TEST_F(MlflowTest, WhatIsNoMlflowServerIsAskedOnce) {
  there_->set(FakeTracking::State::kSomethingElse);
  begin_run();
  finish();
  EXPECT_THAT(warnings().at(0), AllOf(HasSubstr("status 404: <html>"),
                                      HasSubstr("the address of an MLflow server. Nothing more")));
  EXPECT_EQ(there_->asked(), 1U);
}

}  // namespace
}  // namespace muster::observe
