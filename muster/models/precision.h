#pragma once
// Mixed precision (Micikevicius et al., ICLR 2018): matrix products, convolutions and attention of
// a forward pass compute in 16 bits, and backward with them; everything that sums many numbers or
// keeps them from step to step (norms, softmax, loss, weights, gradients, optimizer) stays in f32.
// libtorch's autocast decides operator by operator and casts what goes in; its switches belong to
// the thread.

#include <torch/types.h>

#include <cstdint>

namespace muster::models {

enum class Precision : std::uint8_t { kF32, kBF16, kF16 };

// While it lives, this thread computes tensors of `device` in `precision`; kF32: as they are.
// Backward needs none: it follows what forward did.
//
// libtorch's cache of cast weights stays off. It is one for the whole process: another lane, or
// another rank in the same process, may empty it in the middle of a pass, and whether a weight that
// is used twice was cast once or twice shows in the bits of its gradient. It also outlives a pass:
// the next step would compute with the weights of the last, and a cast made without a graph (in an
// evaluation) would swallow gradients. So each use casts anew; a lane's pass uses most weights
// once.
class Autocast {
 public:
  Autocast(Precision precision, torch::DeviceType device);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const torch::DeviceType device_;
  const bool was_enabled_;
  const bool was_caching_;
  const torch::ScalarType was_dtype_;
};

// In f32 what comes in 16 bits; anything else as it is.
torch::Tensor widened(const torch::Tensor& tensor);

}  // namespace muster::models
