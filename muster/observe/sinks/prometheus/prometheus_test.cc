#include "muster/observe/sinks/prometheus/prometheus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace muster::observe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

RunStarted started(const std::string& name) {
  RunStarted started;
  started.name = name;
  started.run_folder = "/runs/tiny/20261124T221836Z-3f09a1";
  started.workers = 2;
  started.total_steps = 100;
  return started;
}

Metrics row(int step, std::vector<Metric> values) {
  Metrics row;
  row.step = Step{step};
  row.samples_seen = 16 * step;
  row.time = WallTime(std::chrono::milliseconds(1500));
  row.values = std::move(values);
  return row;
}

TEST(PrometheusName, HasTheMetricsNameWithoutItsSlash) {
  EXPECT_EQ(prometheus_name("train/loss"), "muster_train_loss");
  EXPECT_EQ(prometheus_name("moe/expert-3.load"), "muster_moe_expert_3_load");
}

TEST(PrometheusSink, IsEmptyUntilTheRunHasBegun) {
  const auto sink = create_prometheus_sink();
  sink->set_workers(3);
  EXPECT_EQ(sink->text(), "");
  sink->take(started("tiny"));
  EXPECT_THAT(sink->text(),
              HasSubstr("muster_workers{name=\"tiny\",run=\"20261124T221836Z-3f09a1\"} 3\n"));
}

TEST(PrometheusSink, ShowsTheLastOfEveryMetric) {
  const auto sink = create_prometheus_sink();
  sink->take(started("tiny"));
  sink->take(row(1, {{"train/loss", 2.5}}));
  sink->take(row(2, {{"train/loss", 2.25}}));
  sink->take(row(2, {{"eval/accuracy", 0.5}}));
  EXPECT_THAT(
      sink->text(),
      AllOf(HasSubstr("# HELP muster_train_loss train/loss of metrics.jsonl\n"
                      "# TYPE muster_train_loss gauge\n"
                      "muster_train_loss{name=\"tiny\",run=\"20261124T221836Z-3f09a1\"} 2.25\n"),
            HasSubstr("muster_eval_accuracy{"), HasSubstr("muster_step{"),
            HasSubstr("muster_samples_seen{name=\"tiny\",run=\"20261124T221836Z-3f09a1\"} 32\n"),
            HasSubstr("muster_last_step_timestamp_seconds{name=\"tiny\","
                      "run=\"20261124T221836Z-3f09a1\"} 1.5\n"),
            Not(HasSubstr("2.5\n"))));
}

TEST(PrometheusSink, CountsCheckpointsAndWarnings) {
  const auto sink = create_prometheus_sink();
  sink->take(started("tiny"));
  EXPECT_THAT(
      sink->text(),
      AllOf(HasSubstr("# TYPE muster_checkpoints_total counter\n"),
            HasSubstr("muster_warnings_total{name=\"tiny\",run=\"20261124T221836Z-3f09a1\"} 0\n")));
  CheckpointWritten checkpoint;
  checkpoint.step = Step{5};
  checkpoint.bytes = 1024;
  sink->take(checkpoint);
  sink->take(Notice{Severity::kWarning, "slow"});
  sink->take(Notice{Severity::kNote, "fine"});
  EXPECT_THAT(
      sink->text(),
      AllOf(
          HasSubstr("muster_checkpoints_total{name=\"tiny\",run=\"20261124T221836Z-3f09a1\"} 1\n"),
          HasSubstr(
              "muster_checkpoint_bytes{name=\"tiny\",run=\"20261124T221836Z-3f09a1\"} 1024\n"),
          HasSubstr("muster_warnings_total{name=\"tiny\",run=\"20261124T221836Z-3f09a1\"} 1\n")));
}

TEST(PrometheusSink, WritesOddNumbersAndNamesAsTheFormatAsks) {
  const auto sink = create_prometheus_sink();
  sink->take(started("a \"b\" \\ c\nd"));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  sink->take(row(
      1, {{"a", std::numeric_limits<double>::quiet_NaN()}, {"b", kInfinity}, {"c", -kInfinity}}));
  EXPECT_THAT(sink->text(),
              AllOf(HasSubstr(R"(muster_a{name="a \"b\" \\ c\nd",run=)"), HasSubstr("\"} NaN\n"),
                    HasSubstr("\"} +Inf\n"), HasSubstr("\"} -Inf\n")));
}

}  // namespace
}  // namespace muster::observe
