#include "muster/plan/nearby_workers.h"

#include <gtest/gtest.h>

namespace muster::plan {
namespace {

using Counts = std::vector<std::int32_t>;

TEST(NearbyWorkers, ShareTheSlicesEvenly) {
  EXPECT_EQ(nearby_workers(2, 8), (Counts{1, 4, 8}));
  EXPECT_EQ(nearby_workers(3, 8), (Counts{4, 2, 8, 1}));
  EXPECT_EQ(nearby_workers(1, 6), (Counts{2, 3, 6}));
  EXPECT_EQ(nearby_workers(8, 8), (Counts{4, 2, 1}));
}

TEST(NearbyWorkers, AreNotMany) {
  EXPECT_EQ(nearby_workers(24, 720), (Counts{20, 30, 18, 16}));
  EXPECT_EQ(nearby_workers(1, 1), Counts{});
  EXPECT_EQ(nearby_workers(2, 1), Counts{1}) << "a pipeline of one slice";
}

}  // namespace
}  // namespace muster::plan
