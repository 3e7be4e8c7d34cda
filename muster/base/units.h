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

// A unit that parse_duration() or parse_bytes() takes. Whatever reads, writes, suggests or explains
// quantities goes by the two lists of them.
struct QuantityUnit {
  enum class Use : std::uint8_t {
    kWritten,  // by muster too, where it writes a quantity that is to be read again
    kUsual,    // suggested to people
    kSynonym,  // understood, and told to nobody
  };
  std::string_view name;  // of sizes also "": bytes
  std::int64_t size = 1;  // in nanoseconds, or in bytes
  Use use = Use::kUsual;
};
std::span<const QuantityUnit>
duration_units() noexcept;                            // by their use, the one to take as an example
std::span<const QuantityUnit> size_units() noexcept;  // first

std::vector<std::string_view> usual_names(std::span<const QuantityUnit> units);  // no synonyms

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
