#include "muster/observe/run_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/observe/record_json.h"
#include "muster/testing/temp_folder.h"

namespace muster::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string step(int number, double loss, int second) {
  Metrics row;
  row.step = Step{number};
  row.time = WallTime(std::chrono::seconds(second));
  row.values = {{"train/loss", loss}};
  return to_json_line(row) + "\n";
}

std::string evaluation(int number, const std::string& name, double value) {
  Metrics row;
  row.step = Step{number};
  row.values = {{name, value}};
  return to_json_line(row) + "\n";
}

std::string start(int first_step) {
  RunStarted started;
  started.first_step = Step{first_step};
  started.workers = 2;
  return to_json_line(started) + "\n";
}

std::string end(int number, bool completed, int seconds) {
  RunEnded ended;
  ended.step = Step{number};
  ended.completed = completed;
  ended.took = std::chrono::seconds(seconds);
  return to_json_line(ended) + "\n";
}

TEST(RunOutline, IsTheLastStepTheEvaluationsAndTheEnd) {
  const auto outline =
      read_outline(start(0) + step(1, 3, 10) + step(2, 2.5, 11) + evaluation(2, "eval/loss", 2) +
                   step(3, 2.25, 12) + evaluation(3, "eval/loss", 2.1) + end(3, true, 7));
  EXPECT_EQ(outline.started->workers, 2);
  EXPECT_EQ(outline.last_step->find("train/loss"), 2.25);
  EXPECT_EQ(best_evaluation(outline), (Metric{"eval/loss", 2}));
  EXPECT_TRUE(outline.ended->completed);
  EXPECT_EQ(outline.took, std::chrono::seconds(7));
  EXPECT_EQ(last_step(outline), Step{3});
}

TEST(RunOutline, OfARunThatGoesOnItKnowsThePaceWhateverTheLastStepTook) {
  const auto steps_of = [](const std::vector<double>& times) {
    std::string text;
    for (const double time : times) {
      Metrics row;
      row.values = {{std::string(metric::kStepTime), time}};
      text += to_json_line(row) + "\n";
    }
    return text;
  };
  EXPECT_EQ(read_outline(start(0)).step_time, std::nullopt);
  EXPECT_EQ(read_outline(start(0) + steps_of({1.5})).step_time, 1.5);
  EXPECT_EQ(read_outline(start(0) + steps_of({1, 2, 30})).step_time, 2);
  std::vector<double> slower(20, 1.0);
  slower.resize(40, 3.0);
  EXPECT_EQ(read_outline(start(0) + steps_of(slower)).step_time, 3);
  EXPECT_EQ(read_outline(start(0) + steps_of({9, 9, 9}) + start(3) + steps_of({1})).step_time, 1);
  EXPECT_EQ(read_outline(start(0) + steps_of({1}) + end(1, true, 2)).step_time, std::nullopt);
}

TEST(RunOutline, AccuracyIsBestWhereItIsHighest) {
  const auto outline =
      read_outline(evaluation(1, "eval/accuracy", 0.5) + evaluation(2, "eval/accuracy", 0.75) +
                   evaluation(3, "eval/accuracy", 0.625));
  EXPECT_EQ(best_evaluation(outline), (Metric{"eval/accuracy", 0.75}));
}

TEST(RunOutline, AResumeTakesStepsAgainAndHasNoEndYet) {
  const auto outline =
      read_outline(start(0) + step(1, 3, 10) + evaluation(1, "eval/loss", 3) + step(5, 1, 14) +
                   evaluation(5, "eval/loss", 1) + end(5, false, 20) + start(1) + step(2, 2, 100) +
                   step(3, 1.5, 103));
  EXPECT_EQ(outline.ended, std::nullopt);
  EXPECT_EQ(best_evaluation(outline), (Metric{"eval/loss", 3}));
  EXPECT_EQ(last_step(outline), Step{3});
  EXPECT_EQ(outline.took, std::chrono::seconds(23));
}

TEST(RunOutline, KeepsTheLastWordOnEachSlowWorker) {
  const auto told = [](const std::string& text) {
    return to_json_line(Notice{Severity::kWarning, text}) + "\n";
  };
  const std::string one = told("worker 1 (pid 7 on a) computes 2.0 × slower than the others: …");
  const std::string other = told(
      "worker 12 (pid 8 on b) waits 1 s a step for its data, the others "
      "1 ms: its storage is slow, or it needs more");
  const std::string again = told("worker 1 (pid 7 on a) computes 3.0 × slower than the others: …");
  const std::string good = told("worker 1 (pid 7 on a) keeps pace again");
  EXPECT_EQ(read_outline(start(0) + one + other + again).slow.size(), 2u);
  EXPECT_THAT(read_outline(start(0) + one + other + again).slow[1],
              ::testing::HasSubstr("computes 3.0 ×"));
  EXPECT_EQ(read_outline(start(0) + one + other + good).slow.size(), 1u);
  EXPECT_THAT(read_outline(start(0) + one + start(0)).slow, IsEmpty());
}

TEST(RunOutline, ATornLineIsPassedOver) {
  const auto outline = read_outline(start(0) + step(1, 3, 10) + R"({"type":"metrics","st)");
  EXPECT_EQ(last_step(outline), Step{1});
  EXPECT_EQ(last_step(read_outline("")), Step{0});
}

class RunListTest : public ::testing::Test {
 protected:
  RunFolder add(const std::string& place, const std::string& metrics) {
    const Path root = runs_ / place;
    EXPECT_TRUE(files_.create_folders(root));
    EXPECT_TRUE(write_atomically(files_, root / "metrics.jsonl", metrics));
    return *RunFolder::open(files_, root);
  }
  testing::TempFolder runs_;
  Files& files_ = system_files();
};

TEST_F(RunListTest, FindsRunsAndThoseOfComparisonsNewestFirst) {
  add("tiny/20261124T221836Z-3f09a1", "");
  add("tiny/20261124T221837Z-000001", "");
  add("tiny.compare/20261125T000000Z-00000a/data/20261125T000001Z-00000b", "");
  ASSERT_TRUE(files_.create_folders(runs_ / "tiny/notes"));
  std::vector<std::string> ids;
  for (const RunFolder& run : find_runs(files_, runs_.path()))
    ids.push_back(name_of(run.root()).id);
  EXPECT_THAT(ids, ElementsAre("00000b", "000001", "3f09a1"));
  EXPECT_THAT(find_runs(files_, runs_ / "elsewhere"), IsEmpty());
}

TEST_F(RunListTest, AFolderSaysJobIdAndWhenItBegan) {
  const RunName name = name_of("/runs/tiny/20261124T221836Z-3f09a1");
  EXPECT_EQ(name.job, "tiny");
  EXPECT_EQ(name.id, "3f09a1");
  EXPECT_EQ(name.began, "2026-11-24 22:18");
  EXPECT_EQ(name_of("/elsewhere/copied-run/").id, "copied-run");
  EXPECT_EQ(name_of("/elsewhere/copied-run").began, "");
}

TEST_F(RunListTest, AStateIsWhatTheLauncherSawOrThatItIsGone) {
  const RunFolder run = add("tiny/20261124T221836Z-3f09a1", start(0) + step(1, 3, 10));
  const auto state = [&] { return to_string(look_at(files_, run).state); };
  EXPECT_EQ(state(), "failed");
  EXPECT_EQ(look_at(files_, run).reason, "no end was recorded");
  {
    const auto lock = run.lock(files_);
    ASSERT_TRUE(lock);
    EXPECT_EQ(state(), "running");
  }
  const std::string told = *files_.read(run.metrics());
  ASSERT_TRUE(write_atomically(files_, run.metrics(), told + end(1, true, 5)));
  EXPECT_EQ(state(), "finished");
  ASSERT_TRUE(write_atomically(files_, run.metrics(), told + end(1, false, 5)));
  EXPECT_EQ(state(), "failed");
  ASSERT_TRUE(run.write_summary(files_, {}, RunState::kStopped));
  EXPECT_EQ(state(), "stopped");
}

}  // namespace
}  // namespace muster::observe
