#pragma once
// Quantities with units, as job files write them and people read them.

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"

namespace muster {

Result<Duration> parse_duration(std::string_view text);    // "30s", "1.5 min", "200 ms", "2h", "1d"
Result<std::uint64_t> parse_bytes(std::string_view text);  // "64 MiB", "1GB", "512", "4 KiB"
Result<double> parse_fraction(std::string_view text);      // "5%", "0.05"

// A number that is not negative, and what follows it, without the blanks around: "1.5 epochs"
// is 1.5 and "epochs". Nothing where it begins with no number, or with a leading zero.
struct Quantity {
  double number = 0;
  std::string_view unit;
};
std::optional<Quantity> split_quantity(std::string_view text);

// 007, -010: decimal to some readers, octal to others.
bool has_leading_zero(std::string_view text);

// The units that parse_duration() and parse_bytes() take.
std::vector<std::string_view> duration_units();
std::vector<std::string_view> size_units();

inline double to_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

std::string format_duration(Duration duration);                 // "1.2 s", "3 min 20 s", "850 µs"
std::string format_bytes(std::uint64_t bytes);                  // "64.0 MiB"
std::string format_count(double count);                         // "78.0 k", "1.25 M"
std::string counted(std::int64_t count, std::string_view one);  // "1 step", "3 steps"

// The smallest number of edits from `word` to one of `known`; empty when nothing is near.
// For "did you mean".
std::string nearest(std::string_view word, std::span<const std::string_view> known);

}  // namespace muster
