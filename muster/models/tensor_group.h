#pragma once
// The ranks that hold a model's cut tensors between them (tensor parallelism: Shoeybi et al. 2019),
// as layers see them: collective operations in the middle of forward and backward. Who computes
// with such a model sees to it that all of these ranks run the same passes in the same order.

#include <torch/types.h>

#include <string_view>

#include "muster/models/partition.h"

namespace muster::models {

class TensorGroup {
 public:
  virtual ~TensorGroup() = default;

  virtual TensorShare share() const noexcept = 0;  // this rank, and how many there are

  // Collective; wait for all ranks, and throw where one does not come. `what` names the values in
  // errors and traces.
  // The sum of f32 or f64 tensors of one shape, in an order that depends on the number of ranks
  // alone: the same bits everywhere. A new tensor.
  virtual torch::Tensor sum(const torch::Tensor& addend, std::string_view what) const = 0;
  // Of addends [ranks, …] the sum for this rank: what the ranks have at its place. Order as above.
  virtual torch::Tensor sum_own(const torch::Tensor& addends, std::string_view what) const = 0;
  // [ranks, …]: what every rank has, of one shape and type.
  virtual torch::Tensor gather(const torch::Tensor& own, std::string_view what) const = 0;

  // Whether between cut layers each rank has the activations of its part of every sequence only
  // (sequence parallelism: Korthikanti et al. 2022). Of tensors that are not cut backward then
  // finds on each rank that part's gradient, and the sum over ranks is still to be made.
  virtual bool cuts_sequence() const noexcept { return false; }
};

}  // namespace muster::models
