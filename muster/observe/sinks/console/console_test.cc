#include "muster/observe/sinks/console/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "muster/observe/record_json.h"
#include "muster/observe/sinks/console/lines.h"
#include "muster/testing/fake_clock.h"

namespace muster::observe {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class FakeTerminal final : public Terminal {
 public:
  bool is_terminal() const override { return true; }
  int width() const override { return columns_; }
  void write(std::string_view text) override { text_ += text; }
  bool lost() const override { return false; }
  std::string take() { return std::exchange(text_, {}); }
  void resize(int columns) { columns_ = columns; }

 private:
  int columns_ = 100;
  std::string text_;
};

RunStarted started() {
  RunStarted run;
  run.name = "fashion";
  run.headline = "muster 0.1.0 · 2 workers";
  run.run_folder = "runs/fashion/x";
  run.total_steps = 1000;
  run.total_samples = 100'000;
  run.epochs = 4;
  return run;
}

// Step `step` of 100 samples and a second each.
Metrics trained(std::int64_t step) {
  Metrics row;
  row.step = Step{step};
  row.epoch = static_cast<double>(step) / 250;
  row.samples_seen = step * 100;
  row.time = WallTime(std::chrono::seconds(1'800'000'000 + step));
  row.values = {{"train/loss", 0.6131},    {"train/learning_rate", 1e-3},
                {"perf/step_time_s", 1.0}, {"phase/forward_s", 0.25},
                {"phase/backward_s", 0.5}, {"phase/exposed_comm_s", 0.2}};
  return row;
}

Metrics evaluated(std::int64_t step) {
  Metrics row = trained(step);
  row.values = {{"eval/accuracy", 0.8521}, {"eval/loss", 0.4123}};
  return row;
}

class ConsoleTest : public ::testing::Test {
 protected:
  std::shared_ptr<Sink> open(ConsoleFormat format, bool colour = false) {
    return create_console_sink(terminal_, clock_, {.format = format, .colour = colour});
  }
  FakeTerminal terminal_;
  testing::FakeClock clock_;
};

TEST_F(ConsoleTest, APipeGetsPlainLinesEveryLoggingSteps) {
  const auto sink = open(ConsoleFormat::kPlain);
  sink->take(started());
  for (int step = 1; step <= 25; ++step) sink->take(trained(step));
  sink->take(evaluated(25));
  sink->take(RunEnded{});
  const std::string text = terminal_.take();
  EXPECT_THAT(text, StartsWith("muster 0.1.0 · 2 workers\nrun runs/fashion/x\nstep 1/1,000"));
  EXPECT_THAT(text, EndsWith("\n  run                      runs/fashion/x\n"));
  EXPECT_EQ(result_line("report", "a/b"), "  report                   a/b\n");
  EXPECT_THAT(text, HasSubstr("step 10/1,000  epoch 0.0/4  loss 0.6131  lr 1.00e-03  100 samples/s"
                              "  fwd 25 bwd 50 comm 20 %  16:30 left\n"));
  EXPECT_THAT(text, HasSubstr("step 20/"));
  EXPECT_THAT(text, Not(HasSubstr("step 11/")));
  EXPECT_THAT(text, HasSubstr("eval  step 25  epoch 0.10  accuracy 85.21 %  loss 0.4123\n"));
  EXPECT_EQ(text.find('\r'), text.npos);
  EXPECT_EQ(text.find('\x1b'), text.npos);
}

TEST_F(ConsoleTest, PlainLinesIncludeTheLastStep) {
  const auto sink = open(ConsoleFormat::kPlain);
  RunStarted run = started();
  run.total_steps = 7;
  sink->take(run);
  sink->take(trained(7));
  EXPECT_THAT(terminal_.take(), HasSubstr("step 7/7"));
}

TEST_F(ConsoleTest, ATerminalGetsOneLineDrawnAgainAndAgain) {
  const auto sink = open(ConsoleFormat::kLive);
  sink->take(started());
  terminal_.take();
  sink->take(trained(1));
  const std::string first = terminal_.take();
  EXPECT_THAT(first, StartsWith("\r\x1b[K"));
  EXPECT_EQ(first.find('\n'), first.npos);
  sink->take(trained(2));
  EXPECT_EQ(terminal_.take(), "");  // too soon
  clock_.advance(std::chrono::milliseconds(100));
  sink->take(trained(3));
  EXPECT_THAT(terminal_.take(), HasSubstr("step 3/1,000"));
}

TEST_F(ConsoleTest, OtherLinesStandAboveTheLiveOne) {
  const auto sink = open(ConsoleFormat::kLive);
  sink->take(started());
  sink->take(trained(1));
  terminal_.take();
  sink->take(Notice{Severity::kWarning, "slow disk"});
  const std::string text = terminal_.take();
  EXPECT_THAT(text, StartsWith("\r\x1b[K[WARN] slow disk\n\r\x1b[K"));
  EXPECT_THAT(text, HasSubstr("step 1/1,000"));
}

TEST_F(ConsoleTest, TheLiveLineIsGoneAtTheEnd) {
  auto sink = open(ConsoleFormat::kLive);
  sink->take(started());
  sink->take(trained(1));
  RunEnded ended;
  ended.step = Step{1000};
  ended.took = std::chrono::seconds(61);
  ended.results = {{"eval/accuracy", 0.9031}};
  terminal_.take();
  sink->take(ended);
  const std::string text = terminal_.take();
  EXPECT_THAT(text, StartsWith("\r\x1b[Kdone after step 1,000 in"));
  EXPECT_THAT(text, HasSubstr("validation accuracy      90.31 %"));
  EXPECT_THAT(text, EndsWith("\n"));
  sink.reset();
  EXPECT_EQ(terminal_.take(), "");
}

TEST_F(ConsoleTest, AStoppedRunSaysWhy) {
  const auto sink = open(ConsoleFormat::kPlain);
  sink->take(started());
  RunEnded ended;
  ended.completed = false;
  ended.reason = "rank 1 was killed by SIGKILL";
  sink->take(ended);
  const std::string text = terminal_.take();
  EXPECT_THAT(text, HasSubstr("\nstopped before the first step was done in "));
  EXPECT_THAT(text, HasSubstr(": rank 1 was killed by SIGKILL\n"));
}

RunEnded ended_by_a_long_path() {
  RunEnded ended;
  ended.completed = false;
  ended.step = Step{27};
  ended.took = std::chrono::milliseconds(3300);
  ended.reason =
      "rank 1: [checkpoint/save] cannot write "
      "/data/runs/fashion/20261124T221836Z-3f09a1/checkpoints/step-00000020/"
      "model-00001.safetensors: "
      "No such file or directory; is the folder still there?\nframe #0: somewhere";
  return ended;
}

TEST_F(ConsoleTest, ALongCauseIsWholeInOneLineWhereItIsNoTerminal) {
  const auto sink = open(ConsoleFormat::kPlain);
  sink->take(ended_by_a_long_path());
  const std::string reason = ended_by_a_long_path().reason;
  EXPECT_EQ(terminal_.take(),
            "stopped after step 27 in 3.3 s: " + reason.substr(0, reason.find('\n') + 1));
}

TEST_F(ConsoleTest, ATerminalGetsALongCauseWholeInItsLines) {
  const auto sink = open(ConsoleFormat::kLive, false);
  terminal_.resize(100);
  sink->take(ended_by_a_long_path());
  const std::string expected =
      "stopped after step 27 in 3.3 s: rank 1: [checkpoint/save] cannot write\n"
      "  /data/runs/fashion/20261124T221836Z-3f09a1/checkpoints/step-00000020/"
      "model-00001.safetensors: No\n"
      "  such file or directory; is the folder still there?\n";
  EXPECT_EQ(terminal_.take(), expected);
}

TEST_F(ConsoleTest, ATerminalBreaksTheHeadlineWhereItsPartsMeet) {
  const auto sink = open(ConsoleFormat::kLive);
  RunStarted run = started();
  run.headline = "muster 0.1.0 · libtorch 2.11.0 · 2 workers";
  terminal_.resize(34);
  sink->take(run);
  EXPECT_THAT(terminal_.take(), StartsWith("muster 0.1.0 · libtorch 2.11.0\n  2 workers\nrun "));
}

TEST_F(ConsoleTest, TheLiveLineWaitsForTheFirstStep) {
  const auto sink = open(ConsoleFormat::kLive);
  sink->take(started());
  EXPECT_THAT(terminal_.take(), EndsWith("  0%  waiting for the first step"));
}

TEST_F(ConsoleTest, ACheckpointSaysWhetherTrainingStoodStill) {
  CheckpointWritten checkpoint;
  EXPECT_THAT(checkpoint_line(checkpoint, {}), EndsWith("training never stood still"));
  checkpoint.stall = std::chrono::microseconds(18);
  EXPECT_THAT(checkpoint_line(checkpoint, {}), EndsWith("training stood still for 18 µs"));
}

void expect_fits(const std::string& text, int width) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(columns(line), width) << text;
}

TEST(Lines, AreBrokenWhereTheTerminalEnds) {
  const std::string sentence =
      "worker 1 (pid 8122 on node3) killed by SIGKILL at step 95, waiting for data; 1 worker is "
      "left, going on; its log: runs/a/rank-1.log";
  for (const bool colour : {false, true}) {
    for (const auto severity : {Severity::kNote, Severity::kWarning, Severity::kError}) {
      const std::string words = sentence.substr(0, sentence.find(';'));
      expect_fits(notice_line({severity, words + "\n  " + words}, {colour, 40}), 40);
    }
    expect_fits(notice_line({Severity::kWarning, sentence}, {colour, 80}), 80);
    expect_fits(checkpoint_line({}, {colour, 40}), 40);
    Metrics row = trained(1);
    row.values = {{"eval/loss", 0.25}, {"eval/accuracy", 0.5}, {"eval/perplexity", 12}};
    const std::string line = evaluation_line(row, {colour, 40});
    expect_fits(line, 40);
    EXPECT_EQ(std::ranges::count(line, '\n'), 1) << line;
  }
  EXPECT_EQ(notice_line({Severity::kWarning, "slow   disk"}, {false, 80}), "[WARN] slow   disk");
  EXPECT_EQ(notice_line({Severity::kWarning, sentence}, {false, 0}), "[WARN] " + sentence);
}

TEST(Lines, LeaveWholeWhatIsToBeCopied) {
  const std::string command =
      "others join with: muster worker --join 10.0.0.5:29400 --credentials runs/a/join.key";
  EXPECT_EQ(notice_line({Severity::kNote, command}, {false, 40}), command);
  const std::string further = "go on with: muster train tiny.yaml --workers 2 --resume";
  EXPECT_EQ(notice_line({Severity::kNote, further}, {false, 40}), further);
  const std::string next =
      "next: take the weights     muster checkpoint export tiny --output weights";
  EXPECT_EQ(notice_line({Severity::kNote, next}, {false, 40}), next);
}

TEST(PlainLine, NamesTheEpochsOnlyWhereTheyAreTheGoal) {
  RunStarted run = started();
  run.epochs = 4255.32;  // max_steps: 1,000,000
  Progress progress;
  progress.take(run);
  progress.take(trained(20));
  EXPECT_THAT(plain_line(progress), HasSubstr("epoch 0.08  loss"));
}

TEST_F(ConsoleTest, ColourIsOnlyUsedWhereAskedFor) {
  const auto plain = open(ConsoleFormat::kLive, false);
  plain->take(started());
  plain->take(trained(1));
  EXPECT_THAT(terminal_.take(), Not(HasSubstr("\x1b[3")));
  const auto coloured = open(ConsoleFormat::kLive, true);
  coloured->take(started());
  coloured->take(trained(1));
  EXPECT_THAT(terminal_.take(), HasSubstr("\x1b[36m"));
}

TEST_F(ConsoleTest, JsonIsOneObjectALine) {
  const auto sink = open(ConsoleFormat::kJson);
  sink->take(started());
  sink->take(trained(1));
  sink->take(Span{});
  const auto records = read_json_lines(terminal_.take());
  ASSERT_TRUE(records);
  EXPECT_EQ(*records, (std::vector<Record>{started(), trained(1)}));
}

Progress progress_at(std::int64_t step) {
  Progress progress;
  progress.take(started());
  for (std::int64_t i = 1; i <= step; ++i) progress.take(trained(i));
  return progress;
}

TEST(LiveLine, FitsEveryWidth) {
  const Progress progress = progress_at(420);
  for (const bool colour : {false, true}) {
    for (int width = 1; width <= 300; ++width) {
      EXPECT_LE(columns(live_line(progress, {colour, width})), std::max(0, width - 3)) << width;
    }
  }
  EXPECT_LE(columns(live_line(progress_at(0), {false, 20})), 17);
}

TEST(LiveLine, ShowsWhatMattersMostFirst) {
  const Progress progress = progress_at(420);
  const std::string narrow = live_line(progress, {false, 40});
  EXPECT_THAT(narrow, StartsWith(" 42%"));
  EXPECT_THAT(narrow, HasSubstr("loss 0.6131"));
  EXPECT_THAT(narrow, HasSubstr("9:40 left"));
  EXPECT_THAT(narrow, Not(HasSubstr("lr")));
  const std::string usual = live_line(progress, {false, 80});
  EXPECT_THAT(usual, HasSubstr("fwd 25 bwd 50 comm 20 %"));
  const std::string wide = live_line(progress, {false, 160});
  for (const char* part : {"epoch 1.7/4", "step 420/1,000", "loss 0.6131", "lr 1.00e-03", "100/s",
                           "fwd 25 bwd 50 comm 20 %", "9:40 left"}) {
    EXPECT_THAT(wide, HasSubstr(part));
  }
}

TEST(LiveLine, HasNoTimeLeftAfterTheLastStep) {
  const std::string line = live_line(progress_at(1000), {false, 80});
  EXPECT_THAT(line, StartsWith("100%"));
  EXPECT_THAT(line, EndsWith("finishing"));
}

TEST(Progress, CountsEvaluationsInTheTimeLeftButNotInTheRate) {
  Progress progress;
  progress.take(started());
  for (std::int64_t step = 1; step <= 200; ++step) {
    Metrics row = trained(step);
    row.time = WallTime(std::chrono::seconds(1'800'000'000 + 2 * step));  // half the time elsewhere
    progress.take(row);
  }
  EXPECT_NEAR(*progress.samples_per_second(), 100, 1e-6);
  EXPECT_NEAR(std::chrono::duration<double>(*progress.left()).count(), 1600, 20);
}

TEST(Progress, FollowsAChangeOfPace) {
  Progress progress = progress_at(100);
  Metrics row = trained(100);
  for (std::int64_t step = 101; step <= 200; ++step) {
    row = trained(step);
    row.time = WallTime(std::chrono::seconds(1'800'000'100 + 3 * (step - 100)));
    progress.take(row);
  }
  EXPECT_NEAR(std::chrono::duration<double>(*progress.left()).count(), 2400, 60);
}

TEST(Progress, CountsALongStallOnceItsLikeHasComeBefore) {
  Progress progress = progress_at(100);
  WallTime now = trained(100).time;
  const auto seconds_left_after_a_stall_at = [&](std::int64_t step) {
    Metrics row = trained(step);
    now += std::chrono::seconds(200);
    row.time = now;
    progress.take(row);
    return std::chrono::duration<double>(*progress.left()).count();
  };
  EXPECT_NEAR(seconds_left_after_a_stall_at(101), 1000, 200);
  EXPECT_GT(seconds_left_after_a_stall_at(102), 10'000);
}

TEST(Progress, ResumesWithoutCountingWhatOthersDid) {
  Progress progress;
  RunStarted run = started();
  run.first_step = Step{500};
  run.samples_seen = 50'000;
  progress.take(run);
  EXPECT_DOUBLE_EQ(*progress.fraction(), 0.5);
  EXPECT_FALSE(progress.left());
  progress.take(trained(501));
  EXPECT_NEAR(*progress.samples_per_second(), 100, 1e-6);
}

TEST(Progress, KnowsNoTimeLeftWithoutATotal) {
  Progress progress;
  progress.take(RunStarted{});
  progress.take(trained(3));
  EXPECT_FALSE(progress.fraction());
  EXPECT_FALSE(progress.left());
  EXPECT_THAT(live_line(progress, {false, 80}), HasSubstr("loss"));
}

std::function<std::optional<std::string>(std::string_view)> environment(
    std::map<std::string, std::string, std::less<>> values) {
  return [values](std::string_view name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

TEST(ChooseConsole, HonoursTerminalAndEnvironment) {
  const auto live = choose_console(true, environment({{"TERM", "xterm"}}));
  EXPECT_EQ(live.format, ConsoleFormat::kLive);
  EXPECT_TRUE(live.colour);
  EXPECT_EQ(choose_console(false, environment({})).format, ConsoleFormat::kPlain);
  EXPECT_FALSE(choose_console(false, environment({})).colour);
  EXPECT_EQ(choose_console(true, environment({{"TERM", "dumb"}})).format, ConsoleFormat::kPlain);
  EXPECT_EQ(choose_console(true, environment({{"CI", "true"}})).format, ConsoleFormat::kPlain);
  const auto plain = choose_console(true, environment({{"NO_COLOR", "1"}}));
  EXPECT_EQ(plain.format, ConsoleFormat::kLive);
  EXPECT_FALSE(plain.colour);
  EXPECT_TRUE(choose_console(true, environment({{"NO_COLOR", ""}})).colour);
}

TEST(Columns, CountsWhatIsSeen) {
  EXPECT_EQ(columns(""), 0);
  EXPECT_EQ(columns("abc"), 3);
  EXPECT_EQ(columns("\x1b[36m━━╸\x1b[0m"), 3);
}

}  // namespace
}  // namespace muster::observe
