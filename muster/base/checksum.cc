#include "muster/base/checksum.h"

#include <array>
#include <bit>
#include <cstring>

namespace muster {
namespace {

constexpr std::uint64_t kOdd1 = 0x9E3779B185EBCA87ULL;
constexpr std::uint64_t kOdd2 = 0xC2B2AE3D27D4EB4FULL;
constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kLanes = 4;  // a multiplication waits for the one before it in its lane only

// Another result for another sum, and for another word.
std::uint64_t take(std::uint64_t sum, std::uint64_t word) noexcept {
  return std::rotl(sum + word * kOdd2, 31) * kOdd1;
}

std::uint64_t word_at(const std::byte* bytes, std::size_t count = kWord) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, count);
  return word;
}

}  // namespace

void Checksum::add(std::span<const std::byte> bytes) noexcept {
  std::array<std::uint64_t, kLanes> lanes{value_, value_ + kOdd1, value_ + kOdd2, ~value_};
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= kLanes * kWord; left -= kLanes * kWord, at += kLanes * kWord)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = take(lanes[lane], word_at(at + lane * kWord));
  std::uint64_t sum = bytes.size();
  for (const std::uint64_t lane : lanes) sum = take(sum, lane);
  for (; left >= kWord; left -= kWord, at += kWord) sum = take(sum, word_at(at));
  if (left > 0) sum = take(sum, word_at(at, left));
  value_ = sum ^ (sum >> 29);
}

std::uint64_t checksum_of(std::span<const std::byte> bytes) noexcept {
  Checksum sum;
  sum.add(bytes);
  return sum.value();
}

}  // namespace muster
