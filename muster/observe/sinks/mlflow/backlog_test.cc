#include "muster/observe/sinks/mlflow/backlog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::observe {
namespace {

using ::testing::ElementsAre;

Metrics two_numbers(int step, const std::string& group = "train") {
  Metrics row;
  row.step = Step{step};
  row.time = WallTime(std::chrono::seconds(step));
  row.values = {{group + "/loss", 1.0 * step}, {group + "/accuracy", 0.5}};
  return row;
}

std::vector<std::int64_t> steps_of(const std::vector<Metrics>& rows) {
  std::vector<std::int64_t> steps;
  for (const Metrics& row : rows) steps.push_back(to_int(row.step));
  return steps;
}

TEST(Backlog, GivesRowsInTheirOrderUpToANumber) {
  Backlog backlog(100);
  for (const int step : {1, 2, 3}) backlog.add(two_numbers(step));
  EXPECT_EQ(backlog.numbers(), 6U);
  const auto first = backlog.take(5);
  EXPECT_THAT(steps_of(first), ElementsAre(1, 2));
  EXPECT_EQ(first[1], two_numbers(2));
  EXPECT_THAT(steps_of(backlog.take(5)), ElementsAre(3));
  EXPECT_TRUE(backlog.empty());
}

TEST(Backlog, CutsARowThatIsLongerThanThat) {
  Backlog backlog(100);
  backlog.add(two_numbers(1));
  EXPECT_THAT(backlog.take(1).at(0).values, ElementsAre(Metric{"train/loss", 1}));
  EXPECT_THAT(backlog.take(1).at(0).values, ElementsAre(Metric{"train/accuracy", 0.5}));
  EXPECT_TRUE(backlog.empty());
}

TEST(Backlog, KeepsTheCurvesShapeAndEveryEvaluationWhereItIsFull) {
  Backlog backlog(12);
  for (const int step : {1, 2, 3, 4}) backlog.add(two_numbers(step));
  backlog.add(two_numbers(4, "eval"));
  backlog.add(two_numbers(5));
  EXPECT_EQ(backlog.left_out(), 0U);
  backlog.add(two_numbers(6));
  EXPECT_EQ(backlog.left_out(), 6U);
  EXPECT_THAT(steps_of(backlog.take(100)), ElementsAre(2, 4, 4, 6));
}

TEST(Backlog, LeavesTheNewestOutWhereOnlyEvaluationsWait) {
  Backlog backlog(4);
  for (const int step : {1, 2, 3}) backlog.add(two_numbers(step, "eval"));
  EXPECT_EQ(backlog.left_out(), 2U);
  EXPECT_THAT(steps_of(backlog.take(100)), ElementsAre(1, 2));
}

}  // namespace
}  // namespace muster::observe
