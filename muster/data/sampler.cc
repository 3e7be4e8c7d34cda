#include "muster/data/sampler.h"

#include <bit>

#include "muster/base/check.h"

namespace muster::data {
namespace {

constexpr std::uint64_t kRounds = 8;

constexpr std::uint64_t mask(int bits) noexcept { return (std::uint64_t{1} << bits) - 1; }

}  // namespace

Permutation::Permutation(std::int64_t size, RandomStream random)
    : size_(static_cast<std::uint64_t>(size)), random_(random) {
  MUSTER_CHECK(size >= 1, "a permutation of nothing");
  const int bits = std::bit_width(size_ - 1);
  low_bits_ = bits - bits / 2;
  high_bits_ = bits / 2;
}

std::int64_t Permutation::operator()(std::int64_t position) const noexcept {
  // The network permutes [0, 2^bits), less than twice the size. Following it from one member of
  // [0, size) to the next member permutes those.
  auto value = static_cast<std::uint64_t>(position);
  do {
    value = encrypt(value);
  } while (value >= size_);
  return static_cast<std::int64_t>(value);
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const noexcept {
  std::uint64_t low = value & mask(low_bits_);
  std::uint64_t high = value >> low_bits_;
  for (std::uint64_t round = 0; round < kRounds; round += 2) {
    high ^= random_.block(low * kRounds + round)[0] & mask(high_bits_);
    low ^= random_.block(high * kRounds + round + 1)[0] & mask(low_bits_);
  }
  return (high << low_bits_) | low;
}

Sampler::Sampler(std::uint64_t seed, std::int64_t size, bool shuffle)
    : seed_(seed), size_(size), shuffle_(shuffle) {
  MUSTER_CHECK(size >= 1, "a sampler over no samples");
}

std::int64_t Sampler::index(std::int64_t epoch, std::int64_t position) const {
  MUSTER_DCHECK(position >= 0 && position < size_, "position outside the epoch");
  if (!shuffle_) return position;
  return Permutation(size_,
                     RandomStream(seed_, "shuffle", static_cast<std::uint64_t>(epoch)))(position);
}

}  // namespace muster::data
