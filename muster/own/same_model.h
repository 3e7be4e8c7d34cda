#pragma once
// What ranks that wrap a model have to agree on before its gradients can be reduced: the model.

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "muster/app/world/world.h"

namespace muster::own {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;
};

// Those that are trained, each once, in the order of the module.
std::vector<NamedParameter> trained_parameters(const torch::nn::Module& module);

// "0.weight F32 [8, 3]"
std::string describe(const NamedParameter& parameter);

// Collective. kInvalid, on all ranks alike: one has another model than rank 0, and the first
// difference; kUnsupported: a parameter that cannot be reduced.
Status check_same_model(const torch::nn::Module& module, const app::World& world);

// Collective: rank 0's parameters and buffers on all of them.
Status copy_from_first(const torch::nn::Module& module, const app::World& world);

}  // namespace muster::own
