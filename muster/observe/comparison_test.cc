#include "muster/observe/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "muster/base/text_width.h"
#include "muster/observe/environment.h"

namespace muster::observe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kWeights = "0123456789abcdef";

// Steps of 100 ms with 50 samples each; the first ten, as those that warm up, take a second.
ComparedRun sample(const std::string& name, int steps, double step_time) {
  ComparedRun run;
  run.name = name;
  run.folder = "/runs/tiny.compare/1/" + name + "/2";
  run.weights = kWeights;
  for (int i = 1; i <= steps; ++i) {
    const double took = i <= 10 ? 1.0 : step_time;
    Metrics row;
    row.step = Step{i};
    row.time = WallTime(std::chrono::seconds(1000 + i));
    row.values = {{"train/loss", 1.0 / i},
                  {"perf/samples_per_s", 50 / took},
                  {"perf/step_time_s", took},
                  {"perf/bytes_on_wire", 2048}};
    run.run.rows.push_back(row);
  }
  run.run.ended.took = std::chrono::seconds(65);
  run.run.ended.results = {{"eval/loss", 0.25}, {"train/loss", 0.5}, {"mem/peak_rss_gib", 0.5}};
  return run;
}

std::vector<RunFigures> figures(const std::vector<ComparedRun>& runs) {
  std::vector<RunFigures> all;
  for (const ComparedRun& run : runs) all.push_back(figures_of(run));
  return all;
}

TEST(Comparison, RatesAreThoseOfTheStepsAfterTheWarmUp) {
  const RunFigures run = figures_of(sample("data", 30, 0.1));
  EXPECT_NEAR(run.samples_per_s.value(), 500, 1e-9);
  EXPECT_EQ(run.tokens_per_s, std::nullopt);
  EXPECT_EQ(run.loss, 0.25);
  EXPECT_EQ(run.bytes_a_step, 2048);
  EXPECT_EQ(run.peak_bytes, std::uint64_t{1} << 29);
}

TEST(Comparison, OfAShortRunTheSecondHalfCounts) {
  EXPECT_NEAR(figures_of(sample("data", 4, 0.1)).samples_per_s.value(), 50, 1e-9);
  EXPECT_NEAR(figures_of(sample("data", 1, 0.1)).samples_per_s.value(), 50, 1e-9);
}

TEST(Comparison, ARateIsWeighedByTime) {
  ComparedRun run = sample("data", 20, 0.1);
  run.run.rows.back().values[1].value = 5;  // a step a hundred times as slow
  run.run.rows.back().values[2].value = 10;
  EXPECT_NEAR(figures_of(run).samples_per_s.value(), 10 * 50 / 10.9, 1e-9);
}

TEST(Comparison, TheTableSaysWhoHasTheSameBits) {
  auto other = sample("c", 30, 0.1);
  other.weights = "ffffffffff";
  const std::string text =
      comparison_text(figures({sample("data", 30, 0.1), sample("sharded", 30, 0.2), other}));
  EXPECT_EQ(text,
            "           loss  samples/s         sent/step     memory  time   weights\n"
            "data     0.2500        500  1.00×    2.0 KiB  512.0 MiB  1:05  01234567\n"
            "sharded  0.2500        250  0.50×    2.0 KiB  512.0 MiB  1:05      same\n"
            "c        0.2500        500  1.00×    2.0 KiB  512.0 MiB  1:05  ffffffff\n");
}

TEST(Comparison, ATextAndATableAreBothToldInSamples) {
  auto text = sample("text", 30, 0.1);
  for (Metrics& row : text.run.rows) row.values.push_back({"perf/tokens_per_s", 64'000});
  EXPECT_THAT(comparison_text(figures({text})), HasSubstr("  tokens/s"));
  const std::vector<ComparedRun> both = {sample("table", 30, 0.1), text};
  EXPECT_THAT(comparison_text(figures(both)),
              AllOf(HasSubstr("  samples/s"), HasSubstr("1.00×"), Not(HasSubstr("64,000"))));
  EXPECT_THAT(render_comparison("both", both, "/runs"), Not(HasSubstr("tokens/s")));
  ComparedRun untrained;
  untrained.name = "never began";
  EXPECT_THAT(comparison_text(figures({untrained, text})), HasSubstr("  tokens/s"));
}

TEST(Comparison, TheTableFitsTheTerminal) {
  auto failed = sample("pipeline2+tensor2", 30, 0.1);
  failed.run.ended.completed = false;
  failed.run.ended.reason = "rank 1: killed while it waited for a gradient of the stage behind it";
  const auto runs = figures({sample("shard2+tensor2", 30, 0.1), failed});
  std::istringstream lines(comparison_text(runs, 80));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 80U) << line;
  EXPECT_THAT(comparison_text(runs, 80), HasSubstr(" weights\nshard2+tensor2     01234567\n"));
  EXPECT_THAT(comparison_text(runs), HasSubstr("1:05  01234567\n"));
}

TEST(Comparison, WhatWasNotMeasuredIsADash) {
  ComparedRun failed;
  failed.name = "pipeline";
  failed.run.ended.completed = false;
  failed.run.ended.reason = "rank 1: killed";
  const auto runs = figures({sample("data", 30, 0.1), failed});
  const std::string text = comparison_text(runs);
  EXPECT_THAT(text, HasSubstr("\npipeline       –          –      –"));
  EXPECT_THAT(text, HasSubstr("\npipeline: rank 1: killed\n"));
  const auto json = comparison_json(runs);
  EXPECT_EQ(json[1]["completed"], false);
  EXPECT_TRUE(json[1]["loss"].is_null());
  EXPECT_TRUE(json[1]["peak_bytes"].is_null());
  EXPECT_EQ(json[0]["peak_bytes"], 1 << 29);
}

TEST(Comparison, ThePageHasTheRunsAndLeadsToTheirReports) {
  const std::string html = render_comparison(
      "a <b>", {sample("data", 30, 0.1), sample("x", 9, 0.1)}, "/runs/tiny.compare/1");
  EXPECT_THAT(html, HasSubstr("a &lt;b&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("a <b>")));
  EXPECT_THAT(html, HasSubstr("<a href=\"data/2/report.html\">data</a>"));
  EXPECT_THAT(html, HasSubstr("aria-label=\"training loss against time\""));
  EXPECT_THAT(html, HasSubstr("width:100.00%"));
}

}  // namespace
}  // namespace muster::observe
