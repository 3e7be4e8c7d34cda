#include "muster/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "muster/base/check.h"

namespace muster::data {
namespace {

std::vector<std::int64_t> epoch_order(const Sampler& sampler, std::int64_t epoch) {
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < sampler.size(); ++i) order.push_back(sampler.index(epoch, i));
  return order;
}

bool is_permutation_of_all(std::vector<std::int64_t> order) {
  std::ranges::sort(order);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

class SamplerSize : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(SamplerSize, VisitsEverySampleExactlyOnceInEachEpoch) {
  for (const std::uint64_t seed : {0ull, ~0ull}) {
    const Sampler sampler(seed, GetParam(), true);
    for (const std::int64_t epoch : {0, 7}) {
      if (GetParam() > 5000 && epoch > 0) continue;
      EXPECT_TRUE(is_permutation_of_all(epoch_order(sampler, epoch)))
          << "seed " << seed << ", epoch " << epoch;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, SamplerSize,
                         ::testing::Values(1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 63,
                                           64, 65, 97, 127, 128, 129, 255, 256, 257, 1009, 1023,
                                           1024, 1025, 4095, 4096, 4097, 7919, 60000, 65535, 65536,
                                           65537));

TEST(Sampler, StaysWithinHugeSizes) {
  const std::int64_t size = (std::int64_t{1} << 62) + 12345;
  const Sampler sampler(3, size, true);
  for (const std::int64_t position : {std::int64_t{0}, std::int64_t{1}, size / 2, size - 1}) {
    EXPECT_GE(sampler.index(0, position), 0);
    EXPECT_LT(sampler.index(0, position), size);
  }
}

TEST(Sampler, WithoutShufflingIsTheIdentity) {
  const Sampler sampler(3, 100, false);
  for (std::int64_t i = 0; i < 100; ++i) EXPECT_EQ(sampler.index(5, i), i);
}

TEST(Sampler, EpochsAndSeedsHaveOrdersOfTheirOwn) {
  const Sampler one(1, 1000, true);
  const Sampler two(2, 1000, true);
  EXPECT_NE(epoch_order(one, 0), epoch_order(one, 1));
  EXPECT_NE(epoch_order(one, 0), epoch_order(two, 0));
  EXPECT_EQ(epoch_order(one, 4), epoch_order(Sampler(1, 1000, true), 4));
}

// The order of a run is a promise to those who resume it with a later version.
TEST(Sampler, OrderIsStableForEver) {
  const Sampler sampler(42, 60000, true);
  const std::vector<std::int64_t> first{sampler.index(0, 0), sampler.index(0, 1),
                                        sampler.index(3, 59999)};
  EXPECT_EQ(first, (std::vector<std::int64_t>{36276, 35849, 27563}));
}

TEST(Sampler, AllOrdersOfThreeAreAboutEquallyLikely) {
  std::map<std::vector<std::int64_t>, int> seen;
  const Sampler sampler(9, 3, true);
  const int epochs = 6000;
  for (int epoch = 0; epoch < epochs; ++epoch) ++seen[epoch_order(sampler, epoch)];
  ASSERT_EQ(seen.size(), 6u);
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, epochs / 6, 150);  // 5 deviations
}

TEST(Sampler, NeighboursAreNotLeftTogether) {
  // In a random order of n samples, on average one pair of neighbours follows another as before.
  const Sampler sampler(11, 60000, true);
  int kept = 0;
  for (std::int64_t i = 0; i + 1 < 60000; ++i) {
    kept += sampler.index(0, i + 1) == sampler.index(0, i) + 1;
  }
  EXPECT_LT(kept, 10);
}

TEST(Sampler, PositionAndSampleAreUncorrelated) {
  const std::int64_t size = 60000;
  const Sampler sampler(12, size, true);
  const double mean = (static_cast<double>(size) - 1) / 2;
  double covariance = 0;
  double variance = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const double x = static_cast<double>(i) - mean;
    covariance += x * (static_cast<double>(sampler.index(0, i)) - mean);
    variance += x * x;
  }
  EXPECT_LT(std::abs(covariance / variance), 5 / std::sqrt(static_cast<double>(size)));
}

TEST(Sampler, RefusesNoSamples) {
  EXPECT_THROW(Sampler(0, 0, true), LogicFault);
  EXPECT_THROW(Permutation(0, RandomStream(0, "test")), LogicFault);
}

}  // namespace
}  // namespace muster::data
