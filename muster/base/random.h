#pragma once
// Random numbers that depend on what they are for, never on who drew before. A stream is named by a
// key (seed, purpose, step, item); element i of a stream is a pure function of the key and i.
// Generator: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011). Everything here is pure and thread-safe.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace muster {

// One block: 128-bit counter and 64-bit key to 128 random bits.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) noexcept;

// 64 bits of a name, stable for ever (FNV-1a): parameter names, purposes.
constexpr std::uint64_t stable_hash(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

// Likewise of the bytes of numbers, in this machine's order.
template <class T>
requires std::is_arithmetic_v<T> std::uint64_t stable_hash(const std::vector<T>& numbers)
noexcept {
  return stable_hash({reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)});
}

// One stream of random numbers. A cheap value: copy it, draw any element in any order.
class RandomStream {
 public:
  // `purpose`: "dropout", "init", …; a and b: what distinguishes streams of one purpose, for
  // example step and slice, or epoch and sample.
  RandomStream(std::uint64_t seed, std::string_view purpose, std::uint64_t a = 0,
               std::uint64_t b = 0) noexcept;

  // A stream of its own for `name` below this one (a layer, a parameter).
  RandomStream fork(std::string_view name) const noexcept;
  RandomStream fork(std::uint64_t index) const noexcept;

  std::array<std::uint32_t, 4> block(std::uint64_t index) const noexcept;  // elements 4i … 4i+3
  std::uint32_t bits(std::uint64_t index) const noexcept;                  // element i
  // Bits of first … first + size - 1, fast.
  void fill(std::span<std::uint32_t> elements, std::uint64_t first = 0) const noexcept;
  float uniform(std::uint64_t index) const noexcept;  // [0, 1)
  float normal(std::uint64_t index) const noexcept;   // mean 0, variance 1
  std::uint64_t below(std::uint64_t index, std::uint64_t bound) const noexcept;  // [0, bound)

 private:
  RandomStream(std::uint64_t key, std::uint64_t salt) noexcept : key_(key), salt_(salt) {}
  std::uint64_t key_;   // Philox key
  std::uint64_t salt_;  // upper half of the counter
};

constexpr float uniform_from_bits(std::uint32_t bits) noexcept {
  return static_cast<float>(bits >> 8) * 0x1.0p-24f;
}

// The seam to entropy, for what must not be predictable: keys, tokens, run ids. Thread-safe.
class Entropy {
 public:
  virtual ~Entropy() = default;
  virtual std::uint64_t next() = 0;
};
Entropy& system_entropy() noexcept;

}  // namespace muster
