#pragma once
// What a rank keeps of a model's parameters at ZeRO stage 3: its shard of every bucket. A bucket
// holds parameters of one block only, so that a block can be gathered by itself. One thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "muster/base/dtype.h"
#include "muster/base/ids.h"
#include "muster/base/tensor_slice.h"
#include "muster/models/model.h"
#include "muster/optim/cells.h"
#include "muster/parallel/bucket_layout.h"
#include "muster/parallel/shard_plan.h"
#include "muster/parallel/weight_gathers.h"

namespace muster::parallel {

// Slot 1 + i is that of parameters[n - 1 - i], as lanes have them.
// The buckets of a model's parameters (those that are trained, or the frozen ones): of one block
// each, and those that another block borrows by themselves. `first`: floats of the first slot.
BucketLayout plan_block_buckets(const models::Model& model,
                                const std::vector<models::Parameter>& parameters,
                                std::int64_t first, BucketSizes sizes);

// The cells of parameters, in the order of slots.
std::vector<optim::Cells> cells_by_slot(const std::vector<models::Parameter>& parameters);

// Bytes of weights that two neighbouring blocks use, where those are most.
std::uint64_t widest_two_blocks(const models::Model& model);

class WeightShards {
 public:
  // Copies this rank's values.
  WeightShards(const std::vector<models::Parameter>& parameters, BucketLayout layout,
               const ShardPlan& plan, Rank rank);

  // In the model's order, and the tensors of their values, where the parameters lie.
  const std::vector<ShardPiece>& pieces() const noexcept { return pieces_; }
  const std::vector<at::Tensor>& rows() const noexcept { return rows_; }
  // Over the shard; of whole tensors also where the model is cut.
  std::vector<TensorSlice> state() const;
  // The shard lies on the host, from where it is gathered, and where the parameters do, the rows
  // are its memory. Elsewhere they are copies: the shard gets what has become of the rows, or they
  // get what was written into the shard.
  void rows_changed();
  void loaded();
  std::uint64_t bytes() const noexcept;

  // Its buckets, behind those that are there; `products`: as planned_buckets() has it.
  void append_to(std::vector<WeightBucket>& buckets, DType products) const;

 private:
  std::size_t parameter_of(std::int32_t slot) const {
    return parameters_.size() - static_cast<std::size_t>(slot);
  }
  std::span<float> place_of(const ShardPiece& piece);

  const std::vector<models::Parameter> parameters_;
  const BucketLayout layout_;
  const BucketShards shards_;
  const Rank rank_;
  std::vector<std::shared_ptr<std::vector<float>>> own_;  // by bucket
  std::vector<ShardPiece> pieces_;
  std::vector<at::Tensor> values_;  // over own_, by piece
  std::vector<at::Tensor> rows_;    // the same, or copies
};

// The buckets, but the first slot's, without anybody's shard of them. What passes use for products
// only travels in the type of these, `products`.
std::vector<WeightBucket> planned_buckets(const std::vector<models::Parameter>& parameters,
                                          const BucketLayout& layout, const BucketShards& shards,
                                          DType products);
// In which such passes compute them.
DType products_in(models::Precision precision);

// For each block, which of the buckets it uses.
std::vector<std::vector<std::size_t>> buckets_needed(const models::Model& model,
                                                     std::span<const WeightBucket> buckets);

}  // namespace muster::parallel
