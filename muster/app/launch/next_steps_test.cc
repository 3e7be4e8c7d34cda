#include "muster/app/launch/next_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

RunOutcome outcome(ExitCode code, bool saved) {
  return {.code = code,
          .saved = saved,
          .ruined = false,
          .run = "runs/fashion/x",
          .program = "muster",
          .resume_command = "muster train fashion.yaml --set training.epochs=8 --resume",
          .extend_command = "muster train fashion.yaml --resume",
          .calmer_command = "muster train fashion.yaml --resume --set training.epochs=8"};
}

TEST(NextSteps, AfterSuccessTakeTheWeightsOrTrainLonger) {
  job::JobSpec job;
  job.training.epochs = 8;
  const std::string text = next_steps(outcome(ExitCode::kDone, true), job);
  EXPECT_THAT(text, HasSubstr("muster checkpoint export runs/fashion/x --output weights\n"));
  EXPECT_THAT(text, HasSubstr("muster train fashion.yaml --resume --set training.epochs=16"));
}

TEST(NextSteps, AfterAnEarlyStopMorePatienceIsNeeded) {
  job::JobSpec job;
  job.training.epochs = 8;
  job.evaluation.early_stop_patience = 3;
  RunOutcome early = outcome(ExitCode::kDone, true);
  early.patient = false;
  EXPECT_THAT(next_steps(early, job),
              AllOf(HasSubstr("--output weights\n"),
                    HasSubstr("muster train fashion.yaml --set training.epochs=8 --resume --set "
                              "evaluation.early_stop_patience=6"),
                    Not(HasSubstr("twice"))));
}

TEST(NextSteps, TheBestWeightsAreOfferedWhereTheyAreNotTheNewest) {
  job::JobSpec job;
  job.training.epochs = 8;
  RunOutcome passed = outcome(ExitCode::kDone, true);
  passed.best = Step{1200};
  EXPECT_EQ(next_steps(passed, job),
            "next: take the weights              muster checkpoint export runs/fashion/x --output "
            "weights\n"
            "      take the best, of step 1,200  muster checkpoint export runs/fashion/x --best "
            "--output best\n"
            "      train twice as long           muster train fashion.yaml --resume --set "
            "training.epochs=16");
}

TEST(NextSteps, LongerIsLongerThanWhatIsDone) {
  job::JobSpec job;
  job.training.max_steps = 400;
  RunOutcome beyond = outcome(ExitCode::kDone, true);
  beyond.step = Step{850};
  EXPECT_THAT(next_steps(beyond, job), HasSubstr("--set training.max_steps=1700"));
}

TEST(NextSteps, AfterAnInterruptionGoOnOnlyWhereThereIsACheckpoint) {
  EXPECT_EQ(next_steps(outcome(ExitCode::kInterrupted, true), {}),
            "go on with: muster train fashion.yaml --set training.epochs=8 --resume");
  EXPECT_EQ(next_steps(outcome(ExitCode::kInterrupted, false), {}), "");
  EXPECT_EQ(next_steps(outcome(ExitCode::kUsage, true), {}), "");
}

TEST(NextSteps, AfterADeathSayWhereThingsStand) {
  EXPECT_THAT(next_steps(outcome(ExitCode::kFailed, true), {}), HasSubstr("go on with: muster"));
  EXPECT_THAT(next_steps(outcome(ExitCode::kFailed, false), {}),
              HasSubstr("nothing was saved yet"));
}

TEST(NextSteps, WhereNoCheckpointIsWholeSayThatOnlyANewRunCanBegin) {
  RunOutcome ruined = outcome(ExitCode::kEnvironment, true);
  ruined.ruined = true;
  EXPECT_THAT(next_steps(ruined, {}),
              AllOf(HasSubstr("without --resume"),
                    HasSubstr("muster checkpoint verify runs/fashion/x"), Not(HasSubstr("go on"))));
}

TEST(NextSteps, QuotePathsForAShell) {
  RunOutcome odd = outcome(ExitCode::kDone, true);
  odd.run = "runs/it's <b>";
  EXPECT_THAT(next_steps(odd, {}), HasSubstr("export 'runs/it'\\''s <b>' --output"));
}

TEST(NextSteps, AfterDivergenceALowerLearningRate) {
  job::JobSpec job;
  job.optimizer.learning_rate = 0.2;
  EXPECT_THAT(next_steps(outcome(ExitCode::kNumeric, true), job),
              HasSubstr("--set training.epochs=8 --set optimizer.learning_rate=0.02"));
  EXPECT_THAT(next_steps(outcome(ExitCode::kNumeric, false), job),
              HasSubstr("start again with --set optimizer.learning_rate=0.02"));
}

}  // namespace
}  // namespace muster::app
