#include "muster/data/contents.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace muster::data {
namespace {

constexpr std::size_t kMiB = 1 << 20;

class ContentsTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  static std::uint64_t sum_of(std::span<const std::byte> bytes) {
    Checksum sum;
    add_contents(sum, bytes);
    return sum.value();
  }
  std::vector<std::byte> bytes_ = std::vector<std::byte>(GetParam(), std::byte{7});
};

TEST_P(ContentsTest, AnotherBeginningOrEndOrSizeIsTold) {
  const std::uint64_t before = sum_of(bytes_);
  EXPECT_EQ(sum_of(bytes_), before);
  EXPECT_NE(sum_of(std::span(bytes_).first(bytes_.size() - 1)), before);
  for (std::byte* const place : {&bytes_.front(), &bytes_.back()}) {
    *place = std::byte{8};
    EXPECT_NE(sum_of(bytes_), before);
    *place = std::byte{7};
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ContentsTest,
                         ::testing::Values(1, 5000, 16 * kMiB, 16 * kMiB + 1, 40 * kMiB));

TEST(Contents, OfFewAnyOtherByteIsToldOfManyAnyOtherStretch) {
  std::vector<std::byte> bytes(40 * kMiB);
  const auto sum_of = [&](std::size_t size) {
    Checksum sum;
    add_contents(sum, std::span(bytes).first(size));
    return sum.value();
  };
  const std::uint64_t few = sum_of(16 * kMiB);
  const std::uint64_t many = sum_of(40 * kMiB);
  bytes[3333333] = std::byte{1};
  EXPECT_NE(sum_of(16 * kMiB), few);
  std::fill_n(bytes.begin() + 20 * kMiB, kMiB, std::byte{1});
  EXPECT_NE(sum_of(40 * kMiB), many);
}

}  // namespace
}  // namespace muster::data
