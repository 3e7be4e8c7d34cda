#pragma once
// How a whole is dealt out in contiguous shares: leaves to ranks, samples to slices. Pure.

#include <cstdint>

namespace muster {

struct Share {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  constexpr std::int64_t size() const noexcept { return end - begin; }
  friend constexpr bool operator==(const Share&, const Share&) = default;
};

// Items [0, total) cut into `parts` contiguous shares whose sizes differ by at most one, the larger
// first; share `index` of them. parts >= 1, 0 <= index < parts.
constexpr Share even_share(std::int64_t total, std::int64_t parts, std::int64_t index) noexcept {
  const std::int64_t size = total / parts;
  const std::int64_t larger = total % parts;
  const std::int64_t begin = index * size + (index < larger ? index : larger);
  return {begin, begin + size + (index < larger ? 1 : 0)};
}

}  // namespace muster
