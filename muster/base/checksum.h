#pragma once
// A 64-bit checksum at the speed of memory, for bits that go wrong by accident: a change of one
// word always changes it, any other change, such as two words that have swapped places, but for one
// case in 2^64. No protection from somebody who wants two contents to have one checksum. It depends
// on this machine's byte order. The rounds are xxHash64's (Collet 2012).

#include <cstddef>
#include <cstdint>
#include <span>

namespace muster {

// A value. Pieces in order; where one ends and the next begins counts as well.
class Checksum {
 public:
  void add(std::span<const std::byte> bytes) noexcept;
  std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_ = 0x27D4EB2F165667C5ULL;
};

std::uint64_t checksum_of(std::span<const std::byte> bytes) noexcept;  // of one piece

}  // namespace muster
