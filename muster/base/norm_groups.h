#pragma once
// Into how many groups a group norm (Wu and He 2018) deals its channels. What a model and the
// checks of its job have to agree on.

#include <cstdint>
#include <numeric>

namespace muster {

// Eight, or fewer where that does not divide. channels >= 1.
constexpr std::int64_t norm_groups(std::int64_t channels) noexcept {
  constexpr std::int64_t kMost = 8;
  return std::gcd(channels, kMost);
}

}  // namespace muster
