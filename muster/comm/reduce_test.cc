#include "muster/comm/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "muster/base/random.h"
#include "muster/comm/small_floats.h"

namespace muster::comm {
namespace {

constexpr Reduce kReduces[] = {Reduce::kSum, Reduce::kAvg, Reduce::kMin, Reduce::kMax,
                               Reduce::kProduct};

std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t key) {
  const RandomStream random(3, "reduce", key);
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(random.bits(i));
  return bytes;
}

// With one and the same NaN for each.
template <class T, class IsNan>
void unite_nans(std::vector<std::byte>& bytes, T nan, IsNan is_nan) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    if (is_nan(value)) std::memcpy(bytes.data() + at, &nan, sizeof nan);
  }
}

std::vector<std::byte> with_one_nan(DType dtype, std::vector<std::byte> bytes) {
  const auto isnan = [](auto value) { return std::isnan(value); };
  const auto above = [](int infinity) {
    return [infinity](std::uint16_t value) { return (value & 0x7fff) > infinity; };
  };
  if (dtype == DType::kF16) unite_nans(bytes, std::uint16_t{0x7e00}, above(0x7c00));
  if (dtype == DType::kBF16) unite_nans(bytes, std::uint16_t{0x7fc0}, above(0x7f80));
  if (dtype == DType::kF32) unite_nans(bytes, std::numeric_limits<float>::quiet_NaN(), isnan);
  if (dtype == DType::kF64) unite_nans(bytes, std::numeric_limits<double>::quiet_NaN(), isnan);
  return bytes;
}

template <class T>
T reduce_one(DType dtype, Reduce how, T a, T b) {
  T out;
  reduce(dtype, how, {reinterpret_cast<std::byte*>(&out)}, reinterpret_cast<const std::byte*>(&a),
         reinterpret_cast<const std::byte*>(&b), 1);
  return out;
}

// All bit patterns, NaN, infinities and denormals among them, and lengths that leave remainders.
TEST(Reduce, EveryInstructionSetGivesTheSameBits) {
  for (const DType dtype : kAllDTypes)
    for (const Reduce how : kReduces)
      for (const std::int64_t count : {1, 7, 64, 1000, 4097}) {
        const std::size_t length = static_cast<std::size_t>(count) * size_of(dtype);
        const auto a = random_bytes(length, 1);
        const auto b = random_bytes(length, 2);
        std::vector<std::byte> baseline(length);
        reduce_with(InstructionSet::kBaseline, dtype, how, {baseline.data()}, a.data(), b.data(),
                    count);
        const auto expected = with_one_nan(dtype, baseline);
        for (const InstructionSet set :
             {InstructionSet::kBaseline, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
          if (!supported(set)) continue;
          std::vector<std::byte> out(length);
          reduce_with(set, dtype, how, {out.data()}, a.data(), b.data(), count);
          EXPECT_EQ(with_one_nan(dtype, out), expected)
              << to_string(dtype) << " reduction " << static_cast<int>(how);
          auto left = a;
          auto right = b;
          reduce_with(set, dtype, how, {left.data(), right.data()}, left.data(), right.data(),
                      count);
          EXPECT_EQ(with_one_nan(dtype, left), expected) << "into both, left";
          EXPECT_EQ(with_one_nan(dtype, right), expected) << "into both, right";
        }
        auto in_place = a;
        reduce(dtype, how, {in_place.data()}, in_place.data(), b.data(), count);
        EXPECT_EQ(with_one_nan(dtype, in_place), expected) << "in place, left";
        auto right = b;
        reduce(dtype, how, {right.data()}, a.data(), right.data(), count);
        EXPECT_EQ(with_one_nan(dtype, right), expected) << "in place, right";
      }
}

TEST(Reduce, HalfIsRoundedOnceToNearestEven) {
  const auto sum = [](std::uint16_t a, std::uint16_t b) {
    return reduce_one(DType::kF16, Reduce::kSum, a, b);
  };
  EXPECT_EQ(sum(0x3c00, 0x3c00), 0x4000);           // 1 + 1 = 2
  EXPECT_EQ(sum(0x6800, 0x3c00), 0x6800);           // 2048 + 1: a tie, to even
  EXPECT_EQ(sum(0x6801, 0x3c00), 0x6802);           // 2050 + 1: a tie, to even
  EXPECT_EQ(sum(0x7bff, 0x7bff), 0x7c00);           // overflow
  EXPECT_EQ(sum(0x0001, 0x0001), 0x0002);           // denormals
  EXPECT_EQ(sum(0x03ff, 0x0001), 0x0400);           // … into normals
  EXPECT_EQ(sum(0x8000, 0x8000), 0x8000);           // -0
  EXPECT_EQ(sum(0x7c00, 0xfc00) & 0x7c00, 0x7c00);  // infinity - infinity
  EXPECT_NE(sum(0x7c00, 0xfc00) & 0x03ff, 0);       // … is NaN
}

TEST(Reduce, HalfSurvivesWideningForEveryValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool nan = (half & 0x7fff) > 0x7c00;
    if (nan) continue;
    EXPECT_EQ(reduce_one(DType::kF16, Reduce::kProduct, half, std::uint16_t{0x3c00}), half);
  }
}

TEST(Reduce, BFloatIsRoundedOnceToNearestEven) {
  const auto sum = [](std::uint16_t a, std::uint16_t b) {
    return reduce_one(DType::kBF16, Reduce::kSum, a, b);
  };
  EXPECT_EQ(sum(0x3f80, 0x3f80), 0x4000);
  EXPECT_EQ(sum(0x4380, 0x3f80), 0x4380);           // 256 + 1: a tie, to even
  EXPECT_EQ(sum(0x4381, 0x3f80), 0x4382);           // 258 + 1
  EXPECT_GT(sum(0x7fc0, 0x3f80) & 0x7fff, 0x7f80);  // NaN stays NaN
}

TEST(Reduce, MinAndMaxPassNaNOnFromBothSides) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Reduce how : {Reduce::kMin, Reduce::kMax}) {
    EXPECT_TRUE(std::isnan(reduce_one(DType::kF32, how, nan, 1.0F)));
    EXPECT_TRUE(std::isnan(reduce_one(DType::kF32, how, 1.0F, nan)));
  }
  EXPECT_EQ(reduce_one(DType::kI32, Reduce::kMin, -3, 2), -3);
  EXPECT_EQ(reduce_one(DType::kI64, Reduce::kMax, std::int64_t{-3}, std::int64_t{2}), 2);
}

// Against arithmetic in f64, of which every result fits all of these types.
template <class T, class Encode>
void expect_signs_and_fractions(DType dtype, std::initializer_list<double> numbers,
                                const Encode& encode) {
  for (const double a : numbers)
    for (const double b : numbers) {
      const auto of = [&](Reduce how) { return reduce_one<T>(dtype, how, encode(a), encode(b)); };
      const std::string what =
          std::string(to_string(dtype)) + ": " + std::to_string(a) + ", " + std::to_string(b);
      EXPECT_EQ(of(Reduce::kSum), encode(a + b)) << what;
      EXPECT_EQ(of(Reduce::kMin), encode(std::min(a, b))) << what;
      EXPECT_EQ(of(Reduce::kMax), encode(std::max(a, b))) << what;
      EXPECT_EQ(of(Reduce::kProduct), encode(a * b)) << what;
    }
}

TEST(Reduce, SignsAndFractionsCount) {
  const auto numbers = {-96.0, -1.0, -0.375, 0.375, 2.5, 64.0};
  const auto as = [](auto type) {
    return [](double value) { return static_cast<decltype(type)>(value); };
  };
  expect_signs_and_fractions<float>(DType::kF32, numbers, as(float()));
  expect_signs_and_fractions<double>(DType::kF64, numbers, as(double()));
  expect_signs_and_fractions<std::uint16_t>(
      DType::kF16, numbers, [](double value) { return Half::store(static_cast<float>(value)); });
  expect_signs_and_fractions<std::uint16_t>(
      DType::kBF16, numbers, [](double value) { return BFloat::store(static_cast<float>(value)); });
  const auto whole = {-96.0, -1.0, 2.0, 64.0};
  expect_signs_and_fractions<std::int32_t>(DType::kI32, whole, as(std::int32_t()));
  expect_signs_and_fractions<std::int64_t>(DType::kI64, whole, as(std::int64_t()));
}

TEST(Reduce, IntegersWrap) {
  EXPECT_EQ(reduce_one(DType::kU8, Reduce::kSum, std::uint8_t{200}, std::uint8_t{100}), 44);
  EXPECT_EQ(reduce_one(DType::kI32, Reduce::kSum, std::numeric_limits<std::int32_t>::max(), 1),
            std::numeric_limits<std::int32_t>::min());
}

TEST(Divide, RoundsIntegersTowardsZero) {
  std::int32_t values[] = {7, -7, 6, 0};
  divide(DType::kI32, reinterpret_cast<std::byte*>(values), 4, 2);
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[1], -3);
  EXPECT_EQ(values[2], 3);
  std::uint8_t byte = 200;  // a divisor that does not fit the type
  divide(DType::kU8, reinterpret_cast<std::byte*>(&byte), 1, 300);
  EXPECT_EQ(byte, 0);
  float value = 1.0F;
  divide(DType::kF32, reinterpret_cast<std::byte*>(&value), 1, 3);
  EXPECT_EQ(value, 1.0F / 3.0F);
}

}  // namespace
}  // namespace muster::comm
