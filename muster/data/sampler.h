#pragma once
// Sampler: the order of the samples, as a pure function position -> sample. Needs no memory and no
// history, so that any worker can start anywhere: each epoch is a permutation of its own, a Feistel
// network over Philox (format-preserving encryption: Black and Rogaway, "Ciphers with arbitrary
// finite domains", CT-RSA 2002, with cycle walking).

#include <cstdint>

#include "muster/base/random.h"

namespace muster::data {

// A permutation of [0, size), chosen by `random`. Pure; a cheap value.
class Permutation {
 public:
  Permutation(std::int64_t size, RandomStream random);            // size >= 1
  std::int64_t operator()(std::int64_t position) const noexcept;  // 0 <= position < size

 private:
  std::uint64_t encrypt(std::uint64_t value) const noexcept;
  std::uint64_t size_;
  int low_bits_;
  int high_bits_;
  RandomStream random_;
};

class Sampler {  // immutable, so thread-safe
 public:
  Sampler(std::uint64_t seed, std::int64_t size, bool shuffle);  // size >= 1

  std::int64_t size() const noexcept { return size_; }
  // The sample at `position`, 0 <= position < size(), of `epoch`. Each epoch visits every sample
  // exactly once.
  std::int64_t index(std::int64_t epoch, std::int64_t position) const;
  bool shuffles() const noexcept { return shuffle_; }

 private:
  std::uint64_t seed_;
  std::int64_t size_;
  bool shuffle_;
};

}  // namespace muster::data
