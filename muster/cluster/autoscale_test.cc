#include "muster/cluster/autoscale.h"

#include <gtest/gtest.h>

namespace muster::cluster {
namespace {

// Asks again and again while the world gives `rate` for each number of workers.
std::vector<std::int32_t> follow(ThroughputRule& rule, const std::map<std::int32_t, double>& rate,
                                 std::int32_t workers, int questions) {
  std::vector<std::int32_t> path;
  bool steady = true;
  for (int i = 0; i < questions; ++i) {
    const auto wish = rule({workers, rate.at(workers), steady, 1, static_cast<int>(rate.size())});
    EXPECT_FALSE(wish.reason.empty());
    steady = wish.workers == workers;
    workers = wish.workers;
    path.push_back(workers);
  }
  return path;
}

using Path = std::vector<std::int32_t>;

TEST(ThroughputRule, GrowsWhileItPays) {
  ThroughputRule rule(0.5);
  EXPECT_EQ(follow(rule, {{1, 10}, {2, 20}, {3, 29}, {4, 37}}, 1, 8),
            (Path{2, 2, 3, 3, 4, 4, 4, 4}));
}

TEST(ThroughputRule, GoesBackFromOneThatDoesNotPayAndTriesAgainLater) {
  ThroughputRule rule(0.5, 6);
  EXPECT_EQ(follow(rule, {{1, 10}, {2, 19}, {3, 21}, {4, 22}}, 1, 12),
            (Path{2, 2, 3, 3, 2, 2, 2, 2, 2, 2, 3, 3}));
}

TEST(ThroughputRule, AsksForNothingWhileWorkersChange) {
  ThroughputRule rule(0.5);
  EXPECT_EQ(rule({2, 50, false, 1, 8}).workers, 2);
  EXPECT_EQ(rule({2, 0, true, 1, 8}).workers, 2);
}

TEST(ThroughputRule, StaysWithinTheJobsLimits) {
  ThroughputRule rule(0.9);
  EXPECT_EQ(rule({2, 10, true, 2, 3}).workers, 3);
  EXPECT_EQ(rule({3, 30, true, 2, 3}).workers, 3);
  EXPECT_EQ(rule({3, 2, true, 3, 3}).workers, 3);
}

}  // namespace
}  // namespace muster::cluster
