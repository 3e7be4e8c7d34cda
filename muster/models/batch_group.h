#pragma once
// The slices of a step's batch, of all ranks, as a norm over the whole batch sees them: they meet
// in the middle of forward and backward. Who computes with such a group sees to it that all slices
// run at the same time, each in passes of the same operations.

#include <torch/types.h>

#include <string_view>

namespace muster::models {

// Each slice has one of its own, for its thread.
class BatchGroup {
 public:
  virtual ~BatchGroup() = default;

  // Collective over the slices: waits for all of them, and throws where one does not come. The sum
  // of what they bring, f64 [numbers] on the host, alike many of each; in an order that follows
  // from the slices alone, so the same bits for all of them. `what` names the numbers in errors
  // and traces.
  virtual torch::Tensor sum(const torch::Tensor& addend, std::string_view what) const = 0;
};

}  // namespace muster::models
