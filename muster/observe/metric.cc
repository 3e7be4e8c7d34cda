#include "muster/observe/metric.h"

#include <algorithm>

namespace muster::observe {

std::optional<double> Metrics::find(std::string_view name) const {
  const auto found = std::ranges::find(values, name, &Metric::name);
  if (found == values.end()) return std::nullopt;
  return found->value;
}

bool Metrics::is_evaluation() const {
  return std::ranges::any_of(values,
                             [](const Metric& metric) { return metric.name.starts_with("eval/"); });
}

}  // namespace muster::observe
