#include "muster/cli/run_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

app::DebugWorker worker(std::int32_t number, std::int64_t step) {
  return {.worker = number,
          .host = "here",
          .pid = 100 + number,
          .step = step,
          .phase = "updating",
          .state = {},
          .dump = app::WorkerDump{}};
}

RunStatus running() {
  RunStatus status;
  status.run.root = "runs/tiny/1";
  status.run.name = {"tiny", "1", "1", ""};
  status.run.state = observe::RunState::kRunning;
  status.run.outline.started.emplace();
  status.run.outline.started->total_steps = 1000;
  observe::Metrics row;
  row.step = Step{400};
  row.epoch = 1.5;
  row.values = {{"train/loss", 0.5}, {"perf/samples_per_s", 1234.4}, {"perf/step_time_s", 0.1}};
  status.run.outline.last_step = row;
  status.run.outline.step_time = 0.1;
  observe::Metrics evaluation;
  evaluation.values = {{"eval/accuracy", 0.875}};
  status.run.outline.evaluations = {evaluation};
  status.run.outline.took = std::chrono::seconds(40);
  status.workers =
      app::DebugReport{.time = "", .occasion = std::string(app::kAskedFor), .workers = {}};
  status.workers->workers = {worker(0, 401), worker(1, 400)};
  return status;
}

TEST(RunStatus, SaysStepMeasuresRateAndWorkers) {
  EXPECT_EQ(status_text(running()),
            "tiny 1 in runs/tiny/1\n"
            "  state    running\n"
            "  step     400 of 1,000, epoch 1.50\n"
            "  measured training loss 0.5, best validation accuracy 87.50 %\n"
            "  rate     1,234 samples/s, 100 ms a step, 1:00 left\n"
            "  time     0:40\n"
            "  workers  2\n"
            "    worker 0 (pid 100 on here): step 401, updating\n"
            "    worker 1 (pid 101 on here): step 400, updating\n"
            "  late     nobody\n");
}

TEST(RunStatus, SaysWhoIsSlow) {
  RunStatus status = running();
  status.run.outline.slow = {"worker 1 is slow: its processor"};
  EXPECT_THAT(status_text(status),
              HasSubstr("  late     nobody\n  slow     worker 1 is slow: its processor\n"));
  status.run.state = observe::RunState::kFinished;
  EXPECT_THAT(status_text(status), Not(HasSubstr("slow")));
}

TEST(RunStatus, SaysWhatIsKnownOfAWorkerNotHeardOfYet) {
  RunStatus status = running();
  status.workers->workers[0].host.clear();
  status.workers->workers[1] = {};
  status.workers->workers[1].worker = 1;
  EXPECT_THAT(status_text(status),
              HasSubstr("    worker 0 (pid 100): step 401, updating\n"
                        "    worker 1 (not heard of yet): step 0, not begun\n"));
}

TEST(RunStatus, NamesWhoIsBehindAndWhoDoesNotAnswer) {
  RunStatus status = running();
  EXPECT_THAT(late_workers(*status.workers), IsEmpty());
  status.workers->workers[1].step = 390;
  EXPECT_THAT(late_workers(*status.workers), ElementsAre("worker 1 is at step 390, others at 401"));
  status.workers->workers[1].dump.reset();
  status.workers->workers[1].state = "its process is stopped (SIGSTOP)";
  EXPECT_THAT(late_workers(*status.workers),
              ElementsAre(HasSubstr("does not answer: its process is stopped")));
}

TEST(RunStatus, WhoIsStartingIsNotLate) {
  RunStatus status = running();
  for (app::DebugWorker& one : status.workers->workers) one.starting = true;
  status.workers->workers[0].step = 0;
  status.workers->workers[1].dump.reset();
  EXPECT_THAT(late_workers(*status.workers), IsEmpty());
  EXPECT_THAT(status_text(status), HasSubstr("  late     nobody\n"));
}

TEST(RunStatus, SaysWhoHasJoinedAndNotAnsweredYet) {
  RunStatus status = running();
  app::DebugWorker& one = status.workers->workers[1];
  one.starting = true;
  one.phase.clear();
  one.step = 0;
  EXPECT_THAT(status_text(status), HasSubstr("(pid 101 on here): step 0, not begun\n"));
  one.dump.reset();
  one.state = "its process is asleep";
  EXPECT_THAT(status_text(status),
              HasSubstr("(pid 101 on here): step 0, not begun, and has not answered yet; its "
                        "process is asleep\n"));
  one.waits_to_begin = true;  // it is asked once all have joined
  EXPECT_THAT(status_text(status), HasSubstr("(pid 101 on here): step 0, not begun\n"));
}

TEST(RunStatus, ACollectiveOfThisMomentIsNotLate) {
  RunStatus status = running();
  for (app::DebugWorker& one : status.workers->workers) {
    one.dump->record = {
        .rank = Rank{one.worker}, .size = 2, .generation = Generation{1}, .calls = {}};
    one.dump->record.calls.push_back(
        {.number = 1, .op = "all_reduce", .age = std::chrono::milliseconds(3)});
  }
  EXPECT_THAT(late_workers(*status.workers), IsEmpty());
  for (app::DebugWorker& one : status.workers->workers)
    one.dump->record.calls.back().age = std::chrono::seconds(3);
  EXPECT_THAT(late_workers(*status.workers), ElementsAre(HasSubstr("for 3.0 s")));
}

TEST(RunStatus, OfAnEndThereIsNothingLeft) {
  RunStatus status = running();
  EXPECT_EQ(time_left(status.run), std::chrono::minutes(1));
  status.run.outline.started->total_steps = 0;
  EXPECT_EQ(time_left(status.run), std::nullopt);
  status = running();
  status.run.state = observe::RunState::kFailed;
  status.run.reason = "no end was recorded";
  status.workers.reset();
  EXPECT_EQ(time_left(status.run), std::nullopt);
  EXPECT_THAT(status_text(status), HasSubstr("failed: no end was recorded\n"));
}

}  // namespace
}  // namespace muster::cli
