#pragma once
// Initial values as a pure function of (seed, parameter name, element): the same on any device, at
// any number of threads, in any order of construction.

#include <torch/types.h>

#include <cstdint>
#include <string_view>

namespace muster::models {

enum class InitKind : std::uint8_t {
  kKeep,  // as the module was constructed (foreign modules, loaded weights)
  kZeros,
  kOnes,
  kNormal,   // mean 0, standard deviation `scale`
  kUniform,  // in [-scale, scale)
  kKaiming,  // normal, standard deviation scale / sqrt(fan in): He et al. 2015, scale = sqrt(2) for
             // ReLU
};

struct Init {
  InitKind kind = InitKind::kKeep;
  double scale = 1;
};

// Writes `tensor` in place. Fan in is the product of all extents but the first.
// `tensor` is a dense f32, f64, f16 or bf16 tensor of any layout and device.
void initialize(torch::Tensor tensor, const Init& init, std::uint64_t seed, std::string_view name);

}  // namespace muster::models
