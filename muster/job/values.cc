#include "muster/job/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "muster/base/trimmed.h"
#include "muster/base/units.h"

namespace muster::job {
namespace {

Error unknown_interval(std::string_view text) {
  return fail(ErrorCode::kInvalid, fmt::format("`{}` is not an interval", text));
}

Result<Interval> interval_of(double number, std::string_view unit, std::string_view text) {
  if (unit == "%") return Interval::of_fraction(number / 100);
  if (unit == "epoch" || unit == "epochs") return Interval::of_epochs(number);
  if (unit == "step" || unit == "steps") {
    const auto digits = text.substr(0, text.size() - unit.size());
    const bool has_exponent = digits.find_first_of("eE") != digits.npos;  // as in no whole number
    if (has_exponent || number != std::floor(number) || number > 1e15)
      return unknown_interval(text);
    return Interval::of_steps(static_cast<std::int64_t>(number));
  }
  if (unit.empty()) return unknown_interval(text);
  const auto time = parse_duration(text);
  if (!time) return unknown_interval(text);
  return Interval::of_time(*time);
}

// In percent, as short as it can be read back: 0.07 times 100 is 7.000000000000001.
std::string percent(double share) {
  constexpr int kMostDigits = 17;
  for (int digits = 1; digits <= kMostDigits; ++digits) {
    const std::string text = fmt::format("{:.{}g}", share * 100, digits);
    double read = 0;
    std::from_chars(text.data(), text.data() + text.size(), read);
    if (read / 100 == share) return fmt::format("{}%", read);
  }
  return fmt::format("{}%", share * 100);
}

// In the largest unit that it is a whole number of.
std::string in_whole_units(std::uint64_t count, std::span<const QuantityUnit> units) {
  const QuantityUnit* largest = nullptr;
  for (const QuantityUnit& unit : units) {
    const bool fits = count % static_cast<std::uint64_t>(unit.size) == 0;
    if (unit.use == QuantityUnit::Use::kWritten && fits && (!largest || unit.size > largest->size))
      largest = &unit;
  }
  return fmt::format("{} {}", count / static_cast<std::uint64_t>(largest->size), largest->name);
}

std::string counted(double amount, std::string_view unit) {
  return fmt::format("{} {}{}", amount, unit, amount == 1 ? "" : "s");
}

}  // namespace

std::int64_t Interval::steps(std::int64_t total_steps, double steps_per_epoch) const noexcept {
  const auto rounded = [this](double steps) {
    return amount_ == 0 ? 0 : std::max<std::int64_t>(1, std::llround(steps));
  };
  switch (unit_) {
    case Unit::kSteps:
      return static_cast<std::int64_t>(amount_);
    case Unit::kEpochs:
      return rounded(amount_ * steps_per_epoch);
    case Unit::kFraction:
      return rounded(amount_ * static_cast<double>(total_steps));
    case Unit::kEnd:
      return total_steps;
    case Unit::kTime:
    case Unit::kNever:
      return 0;
  }
  return 0;
}

Result<Interval> parse_interval(std::string_view text) {
  const auto word = trimmed(text, " ");
  if (word == "end") return Interval::end();
  if (word == "never") return Interval::never();
  const auto quantity = split_quantity(word);
  if (!quantity) return unknown_interval(text);
  return interval_of(quantity->number, quantity->unit, word);
}

std::string to_string(Duration duration) {
  if (duration == Duration::zero()) return "0 s";
  if (duration < Duration::zero()) return "-" + to_string(-duration);
  return in_whole_units(static_cast<std::uint64_t>(duration.count()), duration_units());
}

std::string to_string(Bytes bytes) {
  return bytes.count == 0 ? "0 B" : in_whole_units(bytes.count, size_units());
}

std::string to_string(const Interval& interval) {
  switch (interval.unit()) {
    case Interval::Unit::kSteps:
      return counted(interval.amount(), "step");
    case Interval::Unit::kEpochs:
      return counted(interval.amount(), "epoch");
    case Interval::Unit::kFraction:
      return percent(interval.amount());
    case Interval::Unit::kTime:
      return to_string(interval.time());
    case Interval::Unit::kEnd:
      return "end";
    case Interval::Unit::kNever:
      return "never";
  }
  return {};
}

}  // namespace muster::job
