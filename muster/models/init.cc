#include "muster/models/init.h"

#include <torch/types.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "muster/base/random.h"

namespace muster::models {
namespace {

// Element i is RandomStream::normal(i) times `scale`; two elements share a logarithm.
torch::Tensor normal_values(const RandomStream& stream, std::int64_t count, double scale) {
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(count + count % 2));
  stream.fill(bits);
  auto values = torch::empty({count}, torch::kFloat32);
  float* out = values.data_ptr<float>();
  for (std::int64_t i = 0; i < count; i += 2) {
    const double radius = std::sqrt(-2.0 * std::log((bits[i] + 1.0) * 0x1.0p-32));
    const double angle = 2.0 * std::numbers::pi * bits[i + 1] * 0x1.0p-32;
    out[i] = static_cast<float>(static_cast<float>(radius * std::cos(angle)) * scale);
    if (i + 1 < count)
      out[i + 1] = static_cast<float>(static_cast<float>(radius * std::sin(angle)) * scale);
  }
  return values;
}

torch::Tensor uniform_values(const RandomStream& stream, std::int64_t count, double scale) {
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(count));
  stream.fill(bits);
  auto values = torch::empty({count}, torch::kFloat32);
  float* out = values.data_ptr<float>();
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = static_cast<float>((2.0 * uniform_from_bits(bits[i]) - 1.0) * scale);
  return values;
}

double fan_in(const torch::Tensor& tensor) {
  return static_cast<double>(tensor.numel()) /
         static_cast<double>(tensor.dim() > 0 ? tensor.size(0) : 1);
}

}  // namespace

void initialize(torch::Tensor tensor, const Init& init, std::uint64_t seed, std::string_view name) {
  const at::NoGradGuard no_grad;
  if (tensor.numel() == 0) return;
  const RandomStream stream = RandomStream(seed, "init").fork(name);
  const auto put = [&](const torch::Tensor& flat) { tensor.copy_(flat.view(tensor.sizes())); };
  switch (init.kind) {
    case InitKind::kKeep:
      return;
    case InitKind::kZeros:
      tensor.zero_();
      return;
    case InitKind::kOnes:
      tensor.fill_(1);
      return;
    case InitKind::kNormal:
      put(normal_values(stream, tensor.numel(), init.scale));
      return;
    case InitKind::kUniform:
      put(uniform_values(stream, tensor.numel(), init.scale));
      return;
    case InitKind::kKaiming:
      put(normal_values(stream, tensor.numel(), init.scale / std::sqrt(fan_in(tensor))));
      return;
  }
}

}  // namespace muster::models
