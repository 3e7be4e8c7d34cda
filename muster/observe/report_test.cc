#include "muster/observe/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/observe/chart.h"
#include "muster/observe/number_text.h"
#include "muster/observe/record_json.h"
#include "muster/testing/memory_files.h"

namespace muster::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Metrics row(std::int64_t step, std::vector<Metric> values) {
  Metrics metrics;
  metrics.step = Step{step};
  metrics.values = std::move(values);
  return metrics;
}

ReportInput sample() {
  ReportInput input;
  input.started.name = "fashion <1>";
  input.started.headline = "muster 0.1.0 & libtorch";
  for (int step = 1; step <= 5000; ++step) {
    input.rows.push_back(row(step, {{"train/loss", 2.3 * std::exp(-step / 900.0) + 0.3},
                                    {"train/learning_rate", 0.1},
                                    {"perf/step_time_s", 0.1},
                                    {"phase/forward_s", 0.03},
                                    {"phase/backward_s", 0.06}}));
  }
  input.rows.push_back(row(5000, {{"eval/loss", 0.41}, {"eval/accuracy", 0.9}}));
  input.ended.step = Step{5000};
  input.ended.results = {{"eval/accuracy", 0.9031}};
  input.resolved_job = "model: {name: \"resnet\"}";
  return input;
}

TEST(Report, ShowsTheRun) {
  const std::string html = render_report(sample());
  EXPECT_THAT(html, HasSubstr("90.31 %"));
  EXPECT_THAT(html, HasSubstr("5,000"));
  EXPECT_THAT(html, HasSubstr("forward"));
  EXPECT_THAT(html, HasSubstr("30.0 %"));  // of the step
  EXPECT_THAT(html, HasSubstr("validation"));
}

TEST(Report, EscapesEveryText) {
  const std::string html = render_report(sample());
  EXPECT_THAT(html, HasSubstr("fashion &lt;1&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("fashion <1>")));
  EXPECT_THAT(html, HasSubstr("muster 0.1.0 &amp; libtorch"));
  EXPECT_THAT(html, HasSubstr("{name: &quot;resnet&quot;}"));
}

TEST(Report, NeedsNothingFromOutsideAndStaysSmall) {
  const std::string html = render_report(sample());
  for (const char* outside : {"http:", "https:", "<script", "<link", "@import", "url("}) {
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  }
  EXPECT_LT(html.size(), 200'000u);
}

TEST(Report, OfARunWithoutStepsIsStillAPage) {
  const std::string html = render_report({});
  EXPECT_THAT(html, HasSubstr("</html>"));
  EXPECT_THAT(html, Not(HasSubstr("nan")));
}

TEST(Report, LeavesOutNumbersThatAreNotFinite) {
  ReportInput input;
  input.rows = {row(1, {{"train/loss", 1}}), row(2, {{"train/loss", NAN}}),
                row(3, {{"train/loss", INFINITY}}), row(4, {{"train/loss", 0.5}})};
  const std::string html = render_report(input);
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  EXPECT_THAT(html, Not(HasSubstr("inf ")));
}

TEST(Report, IsWrittenFromTheRunsFiles) {
  testing::MemoryFiles files;
  ASSERT_TRUE(files.create_folders("/runs/x"));
  const auto folder = RunFolder::open(files, "/runs/x");
  ASSERT_TRUE(folder);
  EXPECT_EQ(read_run(files, *folder).error().code, ErrorCode::kNotFound);  // no metrics
  RunStarted started;
  started.name = "told";
  const std::string lines =
      to_json_line(started) + "\n" + to_json_line(row(1, {{"train/loss", 2}})) + "\n" + "{\"cut";
  ASSERT_TRUE(write_atomically(files, folder->metrics(), lines));
  const auto input = read_run(files, *folder);
  ASSERT_TRUE(input) << input.error().message;
  EXPECT_TRUE(input->left_out.empty());
  const Status written = write_report(files, *input, folder->report());
  ASSERT_TRUE(written) << written.error().message;
  const auto html = files.read(folder->report());
  ASSERT_TRUE(html);
  EXPECT_THAT(*html, HasSubstr("told"));
  EXPECT_THAT(*html, HasSubstr("no end was recorded"));
}

TEST(Report, TellsWhatItLeavesOut) {
  testing::MemoryFiles files;
  ASSERT_TRUE(files.create_folders("/runs/x"));
  const auto folder = RunFolder::open(files, "/runs/x");
  ASSERT_TRUE(folder);
  const std::string lines = to_json_line(row(1, {{"train/loss", 2}})) + "\nrubbish\n" +
                            to_json_line(row(3, {{"train/loss", 1}})) + "\n";
  ASSERT_TRUE(write_atomically(files, folder->metrics(), lines));
  ASSERT_TRUE(write_atomically(files, folder->environment(), "{"));
  const auto input = read_run(files, *folder);
  ASSERT_TRUE(input) << input.error().message;
  EXPECT_EQ(input->rows.size(), 2u);
  ASSERT_EQ(input->left_out.size(), 2u);
  EXPECT_THAT(input->left_out[0], HasSubstr("/runs/x/metrics.jsonl: line 2: "));
  EXPECT_THAT(input->left_out[1], HasSubstr("/runs/x/env.json: "));
}

TEST(Report, OfARunThatWentOnForgetsTheEndBefore) {
  testing::MemoryFiles files;
  ASSERT_TRUE(files.create_folders("/runs/x"));
  const auto folder = RunFolder::open(files, "/runs/x");
  ASSERT_TRUE(folder);
  RunEnded stopped;
  stopped.completed = false;
  stopped.reason = "as asked";
  RunStarted again;
  again.first_step = Step{1};
  std::string lines;
  for (const Record& record : std::vector<Record>{RunStarted{}, row(1, {{"train/loss", 2}}),
                                                  stopped, again, row(2, {{"train/loss", 1}})})
    lines += to_json_line(record) + "\n";
  ASSERT_TRUE(write_atomically(files, folder->metrics(), lines));
  const auto input = read_run(files, *folder);
  ASSERT_TRUE(input) << input.error().message;
  EXPECT_EQ(input->ended.reason, "no end was recorded");
  EXPECT_EQ(input->ended.step, Step{2});
}

TEST(Ticks, AreRoundAndCoverTheRange) {
  EXPECT_EQ(ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(ticks(3, 97, 5), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  const std::vector<double> small = ticks(0.00031, 0.00094, 4);
  EXPECT_LE(small.front(), 0.00031);
  EXPECT_GE(small.back(), 0.00094);
}

TEST(Ticks, OfEqualValuesAreFew) {
  EXPECT_LE(ticks(0.1, std::nextafter(0.1, 1), 6).size(), 8u);
  EXPECT_LE(ticks(-3, -3, 6).size(), 8u);
  EXPECT_LE(ticks(0, 0, 6).size(), 8u);
}

TEST(Thinned, KeepsTheMean) {
  std::vector<Point> points;
  for (int i = 0; i < 1000; ++i) points.push_back({double(i), double(i)});
  const std::vector<Point> few = thinned(points, 10);
  ASSERT_EQ(few.size(), 10u);
  EXPECT_DOUBLE_EQ(few[0].y, 49.5);
  EXPECT_DOUBLE_EQ(few[9].x, 949.5);
  EXPECT_EQ(thinned(points, 1000).size(), 1000u);
}

TEST(Smoothed, LeavesALineALine) {
  std::vector<Point> points;
  for (int i = 0; i < 50; ++i) points.push_back({double(i), 2.0 * i});
  for (const Point& point : smoothed(points, 7)) EXPECT_NEAR(point.y, 2 * point.x, 1e-9);
}

TEST(NumberText, ReadsWell) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(clock_text(std::chrono::seconds(48)), "0:48");
  EXPECT_EQ(clock_text(std::chrono::seconds(3723)), "1:02:03");
  EXPECT_EQ(metric_text({"eval/accuracy", 0.90312}).value, "90.31 %");
  EXPECT_EQ(metric_text({"eval/bits_per_byte", 2.3}).name, "bits per byte");
}

}  // namespace
}  // namespace muster::observe
