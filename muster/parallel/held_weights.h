#pragma once
// The weights of a rank at ZeRO stage 3: its shards of those that are trained and of the frozen
// ones, and the gathers that make whole ones of everybody's (weight_gathers.h). Where the model is
// cut, these are shards of the rank's part of each tensor. One thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/base/ids.h"
#include "muster/base/result.h"
#include "muster/base/tensor_slice.h"
#include "muster/comm/communicator.h"
#include "muster/models/model.h"
#include "muster/parallel/bucket_layout.h"
#include "muster/parallel/shard_plan.h"
#include "muster/parallel/weight_gathers.h"
#include "muster/parallel/weight_shards.h"

namespace muster::parallel {

class HeldWeights {
 public:
  // Copies this rank's values. `model` outlives it. `layout`, `plan`: of what is trained
  // (plan_block_buckets()); the buckets of what is frozen, in which nothing but weights ever
  // travels, are of these sizes.
  HeldWeights(const models::Model& model, const BucketLayout& layout, const ShardPlan& plan,
              Rank shard, BucketSizes sizes);

  // From here on the model's parameters have no memory but that of the gathers, which are for
  // passes that compute so. `ranks`: one of each shard, in order. Collective.
  Result<std::unique_ptr<WeightGathers>> gathers(comm::Communicator& ranks,
                                                 const models::Compute& passes,
                                                 const comm::OpOptions& op) const;

  const std::vector<at::Tensor>& rows() const noexcept { return trained_.rows(); }  // as there
  void rows_changed() { trained_.rows_changed(); }
  void loaded();
  std::vector<TensorSlice> state() const;  // over the shards: of what is trained, then the others
  std::uint64_t bytes() const noexcept { return trained_.bytes() + frozen_.bytes(); }

 private:
  const models::Model& model_;
  WeightShards trained_, frozen_;
};

}  // namespace muster::parallel
