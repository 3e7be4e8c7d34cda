#include "muster/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "muster/base/trimmed.h"

namespace muster {
namespace {

using UnitUse = QuantityUnit::Use;
constexpr std::int64_t kThousand = 1000, kMillion = 1'000'000, kBillion = 1'000'000'000;
constexpr std::int64_t kOne = 1;  // to shift

constexpr QuantityUnit kTimes[] = {
    {"s", kBillion, UnitUse::kWritten},        {"sec", kBillion, UnitUse::kUsual},
    {"min", 60 * kBillion, UnitUse::kWritten}, {"h", 3600 * kBillion, UnitUse::kWritten},
    {"d", 86'400 * kBillion, UnitUse::kUsual}, {"ms", kMillion, UnitUse::kWritten},
    {"us", kThousand, UnitUse::kWritten},      {"ns", 1, UnitUse::kWritten},
    {"m", 60 * kBillion, UnitUse::kSynonym},   {"µs", kThousand, UnitUse::kSynonym}};
constexpr QuantityUnit kSizes[] = {{"KiB", kOne << 10, UnitUse::kWritten},
                                   {"MiB", kOne << 20, UnitUse::kWritten},
                                   {"GiB", kOne << 30, UnitUse::kWritten},
                                   {"TiB", kOne << 40, UnitUse::kWritten},
                                   {"B", 1, UnitUse::kWritten},
                                   {"kB", kThousand, UnitUse::kUsual},
                                   {"MB", kMillion, UnitUse::kUsual},
                                   {"GB", kBillion, UnitUse::kUsual},
                                   {"TB", 1000 * kBillion, UnitUse::kUsual},
                                   {"", 1, UnitUse::kSynonym},
                                   {"KB", kThousand, UnitUse::kSynonym},
                                   {"kiB", kOne << 10, UnitUse::kSynonym}};

std::string_view trim(std::string_view text) { return trimmed(text, " "); }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<std::int64_t> size_of_unit(std::span<const QuantityUnit> units,
                                         std::string_view name) {
  for (const QuantityUnit& unit : units) {
    if (unit.name == name) return unit.size;
  }
  return std::nullopt;
}

// The quantity in units of size 1, rounded; nothing when it is none or reaches `limit`.
std::optional<double> parse_quantity(std::string_view text, std::span<const QuantityUnit> units,
                                     double limit) {
  const auto quantity = split_quantity(text);
  if (!quantity) return std::nullopt;
  const auto unit = size_of_unit(units, quantity->unit);
  if (!unit) return std::nullopt;
  const double value = std::round(quantity->number * static_cast<double>(*unit));
  return value < limit ? std::optional(value) : std::nullopt;
}

Error no_quantity(std::string_view text, std::string_view what, std::span<const QuantityUnit> units,
                  std::string_view examples) {
  return fail(ErrorCode::kInvalid,
              fmt::format("[units] `{}` is no {}; write a number and one of {}, as in {}", text,
                          what, fmt::join(usual_names(units), ", "), examples));
}

// "3 min 20 s": how many of the larger unit, and of the smaller one if any are left.
std::string two_units(std::int64_t seconds, std::int64_t large, std::string_view large_name,
                      std::int64_t small, std::string_view small_name) {
  const std::int64_t rest = seconds % large / small;
  const std::string text = fmt::format("{} {}", seconds / large, large_name);
  return rest == 0 ? text : fmt::format("{} {} {}", text, rest, small_name);
}

std::string format_long_duration(std::int64_t seconds) {
  constexpr std::int64_t kMinute = 60, kHour = 3600, kDay = 86400;
  if (seconds < kHour) return two_units(seconds, kMinute, "min", 1, "s");
  if (seconds < kDay) return two_units(seconds, kHour, "h", kMinute, "min");
  return two_units(seconds, kDay, "d", kHour, "h");
}

// Optimal string alignment: insertions, deletions, substitutions, swaps of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) rows[i][0] = i;
  std::iota(rows[0].begin(), rows[0].end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1,
                             rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

}  // namespace

std::optional<Quantity> split_quantity(std::string_view text) {
  text = trim(text);
  const bool begins = !text.empty() && (is_digit(text.front()) || text.front() == '.');
  if (!begins || has_leading_zero(text)) return std::nullopt;  // neither "-1" nor "inf"
  Quantity quantity;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), quantity.number);
  if (error != std::errc() || !std::isfinite(quantity.number)) return std::nullopt;
  quantity.unit = trim(text.substr(static_cast<std::size_t>(end - text.data())));
  return quantity;
}

bool has_leading_zero(std::string_view text) {
  text = trim(text);
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && is_digit(text[1]);
}

std::span<const QuantityUnit> duration_units() noexcept { return kTimes; }
std::span<const QuantityUnit> size_units() noexcept { return kSizes; }

std::vector<std::string_view> usual_names(std::span<const QuantityUnit> units) {
  std::vector<std::string_view> names;
  for (const QuantityUnit& unit : units)
    if (unit.use != UnitUse::kSynonym) names.push_back(unit.name);
  return names;
}

Result<Duration> parse_duration(std::string_view text) {
  if (const auto value = parse_quantity(text, kTimes, 0x1p63)) {
    return Duration(static_cast<std::int64_t>(*value));
  }
  return no_quantity(text, "duration", kTimes, "`30s` or `1.5 min`");
}

Result<std::uint64_t> parse_bytes(std::string_view text) {
  if (const auto value = parse_quantity(text, kSizes, 0x1p64)) {
    return static_cast<std::uint64_t>(*value);
  }
  return no_quantity(text, "size", kSizes, "`64 MiB`");
}

Result<double> parse_fraction(std::string_view text) {
  const auto quantity = split_quantity(text);
  if (quantity && quantity->unit.empty()) return quantity->number;
  if (quantity && quantity->unit == "%") return quantity->number / 100;
  return fail(ErrorCode::kInvalid,
              fmt::format("[units] `{}` is no share; write it as `5%` or `0.05`", text));
}

std::string format_duration(Duration duration) {
  const auto nanoseconds = static_cast<double>(duration.count());
  if (duration < Duration::zero()) return fmt::format("-{}", format_duration(-duration));
  if (duration < std::chrono::microseconds(1)) return fmt::format("{} ns", duration.count());
  if (nanoseconds < 999.5e3) return fmt::format("{:.0f} µs", nanoseconds / 1e3);
  if (nanoseconds < 9.95e6) return fmt::format("{:.1f} ms", nanoseconds / 1e6);
  if (nanoseconds < 999.5e6) return fmt::format("{:.0f} ms", nanoseconds / 1e6);
  if (nanoseconds < 59.95e9) return fmt::format("{:.1f} s", nanoseconds / 1e9);
  return format_long_duration(std::chrono::round<std::chrono::seconds>(duration).count());
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::string_view kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1023.95 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_count(double count) {
  if (std::abs(count) < 1000) return fmt::format("{:.6g}", std::round(count * 10) / 10);
  constexpr std::string_view kUnits[] = {"k", "M", "G", "T", "P"};
  double value = count / 1000;
  std::size_t unit = 0;
  for (; std::abs(value) >= 999.95 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  const int decimals = std::abs(value) < 9.995 ? 2 : 1;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

std::string counted(std::int64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string nearest(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return std::string(best);
}

}  // namespace muster
