#include "muster/comm/narrow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "muster/base/random.h"
#include "muster/comm/reduce.h"

namespace muster::comm {
namespace {

class Narrow : public ::testing::TestWithParam<DType> {
 protected:
  static std::vector<std::uint16_t> narrowed(const std::vector<float>& values) {
    std::vector<std::uint16_t> out(values.size());
    narrow(GetParam(), values, reinterpret_cast<std::byte*>(out.data()));
    return out;
  }
  static std::vector<float> widened(const std::vector<std::uint16_t>& values) {
    std::vector<float> out(values.size());
    widen(GetParam(), reinterpret_cast<const std::byte*>(values.data()), out);
    return out;
  }
};

TEST_P(Narrow, EveryNumberOf16BitsComesBack) {
  std::vector<std::uint16_t> all(1 << 16);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  const std::vector<float> wide = widened(all);
  const std::vector<float> again = widened(narrowed(wide));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::isnan(wide[i]))
      EXPECT_TRUE(std::isnan(again[i]));
    else
      EXPECT_EQ(again[i], wide[i]);
  }
}

// Where a sum is formed does not show.
TEST_P(Narrow, RoundedSumsAreThoseOfReduce) {
  const RandomStream random(3, "narrow");
  std::vector<float> a(10'000), b(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = random.normal(2 * i) * std::ldexp(1.0F, static_cast<int>(i % 40) - 30);
    b[i] = random.normal(2 * i + 1) * std::ldexp(1.0F, static_cast<int>(i % 7) - 15);
  }
  round_to(GetParam(), a);
  round_to(GetParam(), b);
  auto sums = narrowed(a);
  const auto right = narrowed(b);
  auto* const out = reinterpret_cast<std::byte*>(sums.data());
  reduce(GetParam(), Reduce::kSum, {out}, out, reinterpret_cast<const std::byte*>(right.data()),
         static_cast<std::int64_t>(sums.size()));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  round_to(GetParam(), a);
  EXPECT_EQ(widened(sums), a);
}

TEST_P(Narrow, RoundsToNearestEvenAndOverflowsToInfinity) {
  const float unit = std::ldexp(1.0F, GetParam() == DType::kF16 ? -10 : -7);  // above 1
  std::vector<float> values{1 + unit / 2, 1 + 1.5F * unit, 1 + 0.4F * unit, -3e38F};
  round_to(GetParam(), values);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], 1 + 2 * unit);
  EXPECT_EQ(values[2], 1);
  EXPECT_EQ(std::isinf(values[3]), GetParam() == DType::kF16);
}

INSTANTIATE_TEST_SUITE_P(Types, Narrow, ::testing::Values(DType::kF16, DType::kBF16));

}  // namespace
}  // namespace muster::comm
