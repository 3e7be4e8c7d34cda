#include "muster/models/dropout.h"

#include <torch/types.h>

#include <cmath>
#include <vector>

#include "muster/base/check.h"

namespace muster::models {

torch::Tensor dropout_mask(torch::IntArrayRef shape, double probability,
                           const RandomStream& stream) {
  MUSTER_CHECK(probability >= 0 && probability < 1, "a dropout probability is in [0, 1)");
  auto mask = torch::empty(shape, torch::kFloat32);
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(mask.numel()));
  stream.fill(bits);
  const auto threshold = static_cast<std::uint32_t>(std::ldexp(probability, 32));
  const auto keep = static_cast<float>(1.0 / (1.0 - probability));
  float* out = mask.data_ptr<float>();
  for (std::size_t i = 0; i < bits.size(); ++i) out[i] = bits[i] < threshold ? 0.0f : keep;
  return mask;
}

torch::Tensor dropout(const torch::Tensor& input, double probability, const RandomStream& stream) {
  if (probability == 0) return input;
  return input * dropout_mask(input.sizes(), probability, stream).to(input.options());
}

}  // namespace muster::models
