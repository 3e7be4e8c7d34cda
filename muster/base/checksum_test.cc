#include "muster/base/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

namespace muster {
namespace {

std::vector<std::byte> numbers(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::generate(bytes.begin(), bytes.end(),
                [i = 0U]() mutable { return static_cast<std::byte>((i++ * 37U) & 0xFFU); });
  return bytes;
}

TEST(Checksum, EveryBitCounts) {
  for (const std::size_t size : {1U, 7U, 8U, 31U, 32U, 33U, 100U}) {
    std::vector<std::byte> bytes = numbers(size);
    std::set<std::uint64_t> seen{checksum_of(bytes)};
    for (std::size_t bit = 0; bit < 8 * size; ++bit) {
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_TRUE(seen.insert(checksum_of(bytes)).second) << size << " bytes, bit " << bit;
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }
}

// A plain sum of words would not see any of it.
TEST(Checksum, OrderCounts) {
  std::vector<std::uint64_t> words(40);
  std::iota(words.begin(), words.end(), 1000);
  const auto sum = [&] { return checksum_of(std::as_bytes(std::span(words))); };
  std::set<std::uint64_t> seen{sum()};
  for (std::size_t a = 0; a < words.size(); ++a)
    for (std::size_t b = a + 1; b < words.size(); ++b) {
      std::swap(words[a], words[b]);
      EXPECT_TRUE(seen.insert(sum()).second) << a << " and " << b;
      std::swap(words[a], words[b]);
    }
  ++words[3];
  --words[20];
  EXPECT_TRUE(seen.insert(sum()).second);
}

TEST(Checksum, PiecesAndLengthsCount) {
  const std::vector<std::byte> bytes = numbers(64);
  std::set<std::uint64_t> seen;
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    Checksum sum;
    sum.add(std::span(bytes).first(cut));
    sum.add(std::span(bytes).subspan(cut));
    EXPECT_TRUE(seen.insert(sum.value()).second) << cut;
  }
  const std::vector<std::byte> zeros(100);
  for (std::size_t size = 0; size <= zeros.size(); ++size)
    EXPECT_TRUE(seen.insert(checksum_of(std::span(zeros).first(size))).second) << size;
}

TEST(Checksum, OfEqualBytesIsEqual) {
  EXPECT_EQ(checksum_of(numbers(1000)), checksum_of(numbers(1000)));
  EXPECT_EQ(checksum_of({}), checksum_of({}));
}

}  // namespace
}  // namespace muster
