#include "muster/cli/top_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include "muster/base/text_width.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

app::LiveWorker worker(std::int32_t number, std::array<double, app::kActivities> shares) {
  return {.worker = number,
          .rank = number,
          .host = "here",
          .pid = 100 + number,
          .step = 401,
          .phase = "updating",
          .operation = {},
          .shares = shares,
          .resident = std::uint64_t{120} << 20};
}

TopView sample() {
  TopView view;
  view.run.name = {"tiny", "1", "3f09a1", ""};
  view.run.state = observe::RunState::kRunning;
  observe::Metrics row;
  row.step = Step{400};
  row.values = {{"train/loss", 0.5},
                {"perf/samples_per_s", 1234},
                {"perf/step_time_s", 0.1},
                {"phase/forward_s", 0.04},
                {"phase/update_s", 0.005}};
  view.run.outline.last_step = row;
  view.run.outline.step_time = 0.1;
  view.workers = {worker(1, {0, 0.8, 0.1, 0.1, 0}), worker(0, {0.05, 0.75, 0.1, 0.1, 0})};
  return view;
}

TEST(TopView, ShowsRateAndEachWorkerInOrderOfRanks) {
  EXPECT_EQ(top_text(sample(), {.width = 80}),
            "tiny 3f09a1  running  step 400  loss 0.5\n"
            "1,234 samples/s, 100 ms a step\n"
            "step: forward 40 %  update 5 %\n"
            "\n"
            "host  rank  worker  pid  step     memory  data  compute  wait  update  other\n"
            "here     0       0  100   401  120.0 MiB   5 %     75 %  10 %    10 %    0 %\n"
            "here     1       1  101   401  120.0 MiB   0 %     80 %  10 %    10 %    0 %\n");
}

TEST(TopView, ANarrowTerminalShowsWhatIsNeededMostAndNumbersWhole) {
  TopView view = sample();
  view.workers[0].host = view.workers[1].host = "node7.somewhere.example";
  EXPECT_EQ(top_text(view, {.width = 39}),
            "tiny 3f09a1  running  step 400\n"
            "  loss 0.5\n"
            "1,234 samples/s, 100 ms a step\n"
            "step: forward 40 %  update 5 %\n"
            "\n"
            "worker  step     memory  compute  wait\n"
            "     0   401  120.0 MiB     75 %  10 %\n"
            "     1   401  120.0 MiB     80 %  10 %\n");
  EXPECT_EQ(top_text(view, {.width = 20}),
            "tiny 3f09a1  running\n"
            "  step 400  loss 0.5\n"
            "1,234 samples/s,\n"
            "  100 ms a step\n"
            "step: forward 40 %\n"
            "  update 5 %\n"
            "\n"
            "worker  step  wait\n"
            "     0   401  10 %\n"
            "     1   401  10 %\n");
}

TEST(TopView, AtAnyWidthLinesFitAndHoldWordsOfTheWholeText) {
  TopView view = sample();
  view.run.name.job = "größer-als-alle-anderen";
  view.run.outline.slow = {"worker 0 (pid 100 on here) computes 2.0 × slower than the others"};
  const auto words_of = [](std::string text) {
    std::ranges::replace(text, '\n', ' ');
    std::istringstream words(text);
    return std::set<std::string>(std::istream_iterator<std::string>(words), {});
  };
  std::set<std::string> known = words_of(top_text(view, {.width = 1000}));
  for (int width = 20; width < 120; ++width) {
    const std::string text = top_text(view, {.width = width});
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(display_width(line), static_cast<std::size_t>(width)) << line;
    for (const std::string& word : words_of(text))
      EXPECT_TRUE(known.contains(word) || word.ends_with("…") || word == "×") << width << word;
    EXPECT_THAT(text, HasSubstr(" 3f09a1")) << width;
    EXPECT_THAT(text, HasSubstr("1,234 samples/s")) << width;
  }
  for (int width = 0; width < 20; ++width) {
    std::istringstream lines(top_text(view, {.width = width}));
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(display_width(line), static_cast<std::size_t>(width)) << line;
  }
  EXPECT_EQ(top_text(view, {.width = 5}).substr(0, 7), "größe");
}

TEST(TopView, IsNoTallerThanTheTerminalAndTellsHowManyWorkersAreNotShown) {
  TopView view = sample();
  view.run.outline.slow = {"worker 7 computes 2.0 × slower than the others"};
  for (std::int32_t i = 2; i < 40; ++i) view.workers.push_back(worker(i, {0, 1, 0, 0, 0}));
  const auto lines = [&](int height) {
    return std::ranges::count(top_text(view, {.height = height}), '\n');
  };
  EXPECT_EQ(lines(47), 47);  // four above the table, its head, a row a worker, two below it
  EXPECT_EQ(lines(1000), 47);
  for (int height = 1; height < 47; ++height) EXPECT_EQ(lines(height), height);
  const std::string text = top_text(view, {.height = 10});
  EXPECT_THAT(text, HasSubstr("here     1       1  101   401"));
  EXPECT_THAT(text, ::testing::EndsWith(
                        "\n… 38 more\n\nslow: worker 7 computes 2.0 × slower than the others\n"));
  view.workers.clear();
  EXPECT_EQ(top_text(view, {.height = 3}), top_text(sample(), {.height = 3}));
}

TEST(TopView, NamesWhoTheWorkersFoundSlowOrWhoOthersWaitFor) {
  TopView view = sample();
  EXPECT_THAT(slow_workers(view), IsEmpty());
  view.workers[0].shares = {0, 0.4, 0.5, 0.1, 0};
  EXPECT_THAT(slow_workers(view), ElementsAre(HasSubstr("worker 0 waits for others 10 % of its "
                                                        "time, they for it up to 50 %")));
  view.run.outline.slow = {"worker 0 (pid 100 on here) computes 2.0 × slower than the others"};
  EXPECT_EQ(slow_workers(view), view.run.outline.slow);
  EXPECT_THAT(top_text(view, {.width = 80}),
              HasSubstr("\nslow: worker 0 (pid 100 on here) computes"));
  EXPECT_THAT(
      top_text(view, {.width = 40}),
      HasSubstr("\nslow: worker 0 (pid 100 on here)\n  computes 2.0 × slower than the others\n"));
}

}  // namespace
}  // namespace muster::cli
