#include "muster/base/random.h"

#include <cmath>
#include <numbers>
#include <random>

namespace muster {
namespace {

constexpr std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
constexpr std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

// Mixes two 64-bit words into one through the generator itself.
std::uint64_t mix(std::uint64_t key, std::uint64_t word) noexcept {
  const auto block =
      philox({low(word), high(word), 0x6d757374u, 0x65720000u}, {low(key), high(key)});
  return (std::uint64_t{block[1]} << 32) | block[0];
}

class SystemEntropy final : public Entropy {
 public:
  std::uint64_t next() override {
    std::random_device device;  // each call on its own, so no lock is needed
    return (std::uint64_t{device()} << 32) | device();
  }
};

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

RandomStream::RandomStream(std::uint64_t seed, std::string_view purpose, std::uint64_t a,
                           std::uint64_t b) noexcept
    : key_(mix(mix(seed, stable_hash(purpose)), a)), salt_(b) {}

RandomStream RandomStream::fork(std::string_view name) const noexcept {
  return fork(stable_hash(name));
}

RandomStream RandomStream::fork(std::uint64_t index) const noexcept {
  return {mix(key_, index), salt_};
}

std::array<std::uint32_t, 4> RandomStream::block(std::uint64_t index) const noexcept {
  return philox({low(index), high(index), low(salt_), high(salt_)}, {low(key_), high(key_)});
}

std::uint32_t RandomStream::bits(std::uint64_t index) const noexcept {
  return block(index / 4)[index % 4];
}

float RandomStream::uniform(std::uint64_t index) const noexcept {
  return uniform_from_bits(bits(index));
}

float RandomStream::normal(std::uint64_t index) const noexcept {
  // Box-Muller on one half of a block: elements 2i and 2i+1 share two uniform numbers.
  const auto four = block(index / 4);
  const std::uint32_t* pair = four.data() + (index % 4 < 2 ? 0 : 2);
  const double radius = std::sqrt(-2.0 * std::log((pair[0] + 1.0) * 0x1.0p-32));
  const double angle = 2.0 * std::numbers::pi * pair[1] * 0x1.0p-32;
  return static_cast<float>(radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle)));
}

std::uint64_t RandomStream::below(std::uint64_t index, std::uint64_t bound) const noexcept {
  // 64 random bits scaled down: bias below bound / 2^64 (Lemire's multiply-shift).
  const auto four = block(index);
  const std::uint64_t wide = (std::uint64_t{four[1]} << 32) | four[0];
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((Wide{wide} * bound) >> 64);
}

Entropy& system_entropy() noexcept {
  static SystemEntropy entropy;
  return entropy;
}

}  // namespace muster
