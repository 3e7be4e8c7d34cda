#pragma once
// relu(batch_norm(x) + skip), which is most of a residual network besides its convolutions, in as
// few passes over memory as it takes: two forward and two backward, where one operation after the
// other takes five or six each. Batch norm: Ioffe and Szegedy 2015; f32, channels last. Any thread.

#include <torch/types.h>

namespace muster::models {

struct NormRelu {
  torch::Tensor input;   // [n, channels, height, width]
  torch::Tensor weight;  // [channels], as the rest
  torch::Tensor bias;
  torch::Tensor skip;  // like the input, added before the ReLU; undefined: nothing
  double epsilon = 0;
  // Out: what the input was normalised by, the variance unbiased, as batch norm's running ones are.
  torch::Tensor mean;
  torch::Tensor variance;
};

// Whether norm_relu() has a way for these; else it is one operation after the other.
bool can_fuse(const NormRelu& of);

// The same up to rounding as batch norm in training, an addition and a ReLU, gradients included;
// where something is not finite the result is not either.
torch::Tensor norm_relu(const NormRelu& of);

}  // namespace muster::models
