#pragma once
// Batch norm by the statistics of the whole batch, of which a pass has one slice (SyncBatchNorm of
// PyTorch; Zhang et al. 2018, "Context Encoding for Semantic Segmentation", §3.3): slices meet once
// in forward, for the sums that mean and variance follow from, and once in backward, for those of
// the gradients. How many samples each slice has does not matter; it may have none.
// Thread rule: that of the pass.

#include <torch/types.h>

#include "muster/models/batch_group.h"

namespace muster::models {

struct SyncNorm {
  torch::Tensor input;   // [n, channels, …], of any floating-point type, which the output has too
  torch::Tensor weight;  // [channels], as the rest
  torch::Tensor bias;
  double epsilon = 0;
};

struct SyncNormed {
  torch::Tensor output;    // in the graph; a new tensor
  torch::Tensor mean;      // f64 [channels], over the batch
  torch::Tensor variance;  // likewise, unbiased, as batch norm's running ones are
};

// Gradients of weight and bias are the slice's, as of any parameter; that of the input is of the
// loss of all slices. `group` outlives the graph.
SyncNormed sync_batch_norm(const SyncNorm& of, const BatchGroup& group);

}  // namespace muster::models
