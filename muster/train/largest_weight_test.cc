#include "muster/train/largest_weight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace muster::train {
namespace {

struct Weights {
  std::vector<float> small{0.5F, -2.0F}, large{1.0F, -7.0F, 3.0F}, none;
  std::vector<std::int64_t> counts{1'000'000};

  std::vector<TensorSlice> slices() {
    return whole_slices({{"small", view_of(std::span(small))},
                         {"large", view_of(std::span(large))},
                         {"none", view_of(std::span(none))},
                         {"counts", view_of(std::span(counts))}});
  }
};

TEST(LargestWeight, IsLargestInMagnitudeAmongFloatingPoint) {
  Weights weights;
  const auto found = largest_weight(weights.slices());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, "large");
  EXPECT_EQ(found->magnitude, 7);
}

TEST(LargestWeight, ANaNIsLargerThanAnything) {
  Weights weights;
  weights.small[0] = std::numeric_limits<float>::quiet_NaN();
  weights.large[0] = std::numeric_limits<float>::infinity();
  const auto found = largest_weight(weights.slices());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, "small");
  EXPECT_TRUE(std::isnan(found->magnitude));
}

TEST(LargestWeight, OfNothingIsNone) { EXPECT_FALSE(largest_weight({})); }

}  // namespace
}  // namespace muster::train
