#include "muster/cluster/restart_budget.h"

#include <gtest/gtest.h>

#include "muster/testing/fake_clock.h"

namespace muster::cluster {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

class RestartBudgetTest : public ::testing::Test {
 protected:
  // Of a worker that dies at this step: whether a new one comes in its place.
  bool restarts(std::int64_t step) {
    const bool may = budget_.allows(clock_.now(), Step{step});
    if (may) budget_.spend(clock_.now(), Step{step});
    return may;
  }

  testing::FakeClock clock_;
  RestartBudget budget_{3, hours(1)};
};

TEST_F(RestartBudgetTest, IsUsedUpWithinTheWindow) {
  for (const int step : {10, 20, 30}) EXPECT_TRUE(restarts(step));
  EXPECT_FALSE(restarts(40));
  clock_.advance(minutes(59));
  EXPECT_FALSE(restarts(5000));
  clock_.advance(minutes(1));
  EXPECT_TRUE(restarts(5001));
}

TEST_F(RestartBudgetTest, AJobOfAMonthOutlivesADeathEveryHour) {
  for (int hour = 0; hour < 24 * 30; ++hour) {
    EXPECT_TRUE(restarts(1000 * hour)) << "after " << hour << " h";
    clock_.advance(hours(1));
  }
}

TEST_F(RestartBudgetTest, TheWindowSlides) {
  std::int64_t step = 0;
  for (int i = 0; i < 3; ++i) {  // at 0, 25 and 50 min
    EXPECT_TRUE(restarts(++step));
    clock_.advance(minutes(25));
  }
  EXPECT_TRUE(restarts(++step));  // at 75 min: the first is forgotten, and only that
  EXPECT_FALSE(restarts(++step));
  clock_.advance(minutes(10));  // at 85 min: the second as well
  EXPECT_TRUE(restarts(++step));
  EXPECT_FALSE(restarts(++step));
}

TEST_F(RestartBudgetTest, WhoDiesAtTheSamePlaceAgainAndAgainEnds) {
  for (int i = 0; i < 3; ++i) {  // it goes back to a checkpoint, and takes hours to come there
    EXPECT_TRUE(restarts(900));
    clock_.advance(hours(5));
  }
  EXPECT_FALSE(restarts(900));
  EXPECT_TRUE(restarts(901)) << "this time it got past it";
}

TEST_F(RestartBudgetTest, BeforeAnythingHasBegunThereIsNoGettingFurther) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(restarts(0));
    clock_.advance(hours(2));
  }
  EXPECT_FALSE(restarts(0));
}

TEST_F(RestartBudgetTest, OfNothingAllowsNothing) {
  EXPECT_FALSE(RestartBudget(0, hours(1)).allows(clock_.now(), Step{1}));
}

}  // namespace
}  // namespace muster::cluster
