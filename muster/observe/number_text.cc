#include "muster/observe/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "muster/base/units.h"
#include "muster/observe/gib.h"

namespace muster::observe {

std::string grouped(std::int64_t number) {
  std::string digits = fmt::format("{}", number);
  const std::ptrdiff_t first = number < 0 ? 1 : 0;
  for (auto place = static_cast<std::ptrdiff_t>(digits.size()) - 3; place > first; place -= 3) {
    digits.insert(digits.begin() + place, ',');
  }
  return digits;
}

std::string clock_text(Duration duration) {
  const auto seconds = std::chrono::round<std::chrono::seconds>(duration).count();
  if (seconds < 3600) return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
  return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

MetricText metric_text(const Metric& metric) {
  std::string name = metric.name.substr(metric.name.find('/') + 1);
  std::ranges::replace(name, '_', ' ');
  if (metric.name == metric::kPeakRss) return {"peak memory", format_bytes(from_gib(metric.value))};
  if (name.ends_with("accuracy")) return {name, fmt::format("{:.2f} %", 100 * metric.value)};
  const bool whole = std::abs(metric.value) < 1e15 && metric.value == std::floor(metric.value);
  if (whole && std::abs(metric.value) >= 100) {
    return {name, grouped(static_cast<std::int64_t>(metric.value))};
  }
  return {name, fmt::format("{:.4g}", metric.value)};
}

MetricText result_text(const Metric& metric) {
  MetricText text = metric_text(metric);
  if (metric.name.starts_with("eval/")) text.name.insert(0, "validation ");
  if (metric.name.starts_with("train/")) text.name.insert(0, "training ");
  return text;
}

}  // namespace muster::observe
