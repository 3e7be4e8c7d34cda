#pragma once
// Bytes as the metrics of memory have them, and back.

#include <cstdint>

namespace muster::observe {

inline constexpr double kBytesPerGib = 1024.0 * 1024.0 * 1024.0;

constexpr double to_gib(std::uint64_t bytes) noexcept {
  return static_cast<double>(bytes) / kBytesPerGib;
}
constexpr std::uint64_t from_gib(double gib) noexcept {
  return static_cast<std::uint64_t>(gib * kBytesPerGib);
}

}  // namespace muster::observe
