#include "muster/models/measure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

namespace muster::models {

torch::Tensor sum_of(const Measure& measure, const std::string& name, const torch::Tensor& outputs,
                     const torch::Tensor& targets) {
  const torch::Tensor values = measure(outputs, targets);
  const std::int64_t samples = outputs.size(0);
  const bool fits = values.defined() && values.dim() > 0 && values.size(0) == samples;
  if (fits && values.numel() == targets.numel()) return values.sum();
  if (fits && values.numel() == samples) return values.sum() * (targets.numel() / samples);
  throw std::invalid_argument(fmt::format(
      "{} gives values of shape [{}] for outputs [{}] and targets [{}]; expected one for each "
      "sample, or one for each target, not reduced (torch::kNone)",
      name, values.defined() ? fmt::format("{}", fmt::join(values.sizes(), ", ")) : "none",
      fmt::join(outputs.sizes(), ", "), fmt::join(targets.sizes(), ", ")));
}

}  // namespace muster::models
