#pragma once
// The tensors of a module of libtorch as muster::Checkpointer stores and loads them.

#include <torch/nn/module.h>

#include <vector>

#include "muster/base/tensor_slice.h"
#include "muster/base/tensor_view.h"

namespace muster {

// Parameters and buffers under their names, each once. Views over their memory: `module` outlives
// them. Throws Failure where one is not dense and in row-major order, or not on the CPU.
std::vector<NamedTensor> tensors_of(const torch::nn::Module& module);

}  // namespace muster
