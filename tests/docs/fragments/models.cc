// What stands around the block of docs/models.md: page.py puts it in as block.inc.
#include <torch/csrc/autograd/autograd.h>

#include "muster/models/create.h"
#include "muster/models/model.h"

namespace muster {

std::vector<torch::Tensor> one_slice(std::uint64_t seed, std::uint64_t step, std::uint64_t slice,
                                     const torch::Tensor& inputs, const torch::Tensor& targets,
                                     double targets_of_the_batch) {
#include "block.inc"
  return gradients;
}

}  // namespace muster
