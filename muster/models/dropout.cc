#include "muster/models/dropout.h"

#include <torch/types.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/base/check.h"

namespace muster::models {
namespace {

// Of elements `first` and behind.
void fill_factors(std::span<float> factors, std::uint64_t first, double probability,
                  const RandomStream& stream) {
  MUSTER_CHECK(probability >= 0 && probability < 1, "a dropout probability is in [0, 1)");
  std::vector<std::uint32_t> bits(factors.size());
  stream.fill(bits, first);
  const auto threshold = static_cast<std::uint32_t>(std::ldexp(probability, 32));
  const auto keep = static_cast<float>(1.0 / (1.0 - probability));
  for (std::size_t i = 0; i < bits.size(); ++i) factors[i] = bits[i] < threshold ? 0.0f : keep;
}

}  // namespace

torch::Tensor dropout_mask(torch::IntArrayRef shape, double probability,
                           const RandomStream& stream) {
  auto mask = torch::empty(shape, torch::kFloat32);
  fill_factors({mask.data_ptr<float>(), static_cast<std::size_t>(mask.numel())}, 0, probability,
               stream);
  return mask;
}

torch::Tensor dropout_mask(torch::IntArrayRef shape, const AxisPart& part, double probability,
                           const RandomStream& stream) {
  if (part.runs.size() == 1 && part.runs.front().size() == part.whole)
    return dropout_mask(shape, probability, stream);
  auto mask = torch::empty(shape, torch::kFloat32);
  const std::int64_t row = c10::multiply_integers(shape.slice(2));  // elements of one of the axis
  float* next = mask.data_ptr<float>();
  for (std::int64_t sample = 0; sample < shape[0]; ++sample)
    for (const Share run : part.runs) {
      const auto count = static_cast<std::size_t>(run.size() * row);
      const auto first = static_cast<std::uint64_t>((sample * part.whole + run.begin) * row);
      fill_factors({next, count}, first, probability, stream);
      next += count;
    }
  return mask;
}

torch::Tensor dropout(const torch::Tensor& input, double probability, const RandomStream& stream) {
  if (probability == 0) return input;
  return input * dropout_mask(input.sizes(), probability, stream).to(input.options());
}

torch::Tensor dropout(const torch::Tensor& input, const AxisPart& part, double probability,
                      const RandomStream& stream) {
  if (probability == 0) return input;
  return input * dropout_mask(input.sizes(), part, probability, stream).to(input.options());
}

}  // namespace muster::models
