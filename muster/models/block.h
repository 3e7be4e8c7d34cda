#pragma once
// A block: one step of a model's forward pass, the unit in which models are published, cut into
// pipeline stages and recomputed. It says of each parameter how to start it and how it may be cut.

#include <torch/nn/module.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/check.h"
#include "muster/base/random.h"
#include "muster/models/init.h"
#include "muster/models/partition.h"
#include "muster/models/precision.h"

namespace muster::models {

class BatchGroup;
class ContextGroup;
class ExpertGroup;
class TensorGroup;

// How passes compute, the same for a whole training.
struct Compute {
  // Of the blocks' products; what one block hands to the next may then be of 16 bits.
  Precision precision = Precision::kF32;
};

// What one forward pass of one slice is given. One per lane and slice; never shared by threads.
struct PassContext {
  bool training = true;
  // Keyed by (seed, step, slice) already. Model forks it by block name, blocks by what it is for.
  RandomStream random;
  // Blocks append, when training, this pass's value of each statistic that they have registered, in
  // that order and of that shape: batch norm its mean and unbiased variance. Null: the caller does
  // not want them. Running statistics are never touched here.
  std::vector<torch::Tensor>* statistics = nullptr;
  // What auxiliary losses (auxiliary_loss.h), which are means over the pass's samples, weigh in the
  // gradient: the pass's share of the global batch, times whatever else scales the gradient that
  // backward starts from. 0: nothing.
  double auxiliary_weight = 0;
  Compute compute = {};
  // The ranks that hold the cut tensors between them (tensor_group.h), of which this is one; Model
  // sets it. Null: nothing is cut.
  const TensorGroup* group = nullptr;
  // The ranks that have a part of every sequence each (context_group.h), of which this is one;
  // Model sets it. What a block gets and gives is then of this rank's positions (positions.h), but
  // the first block gets whole sequences. Null: sequences are whole.
  const ContextGroup* sequences = nullptr;
  // The ranks that hold some of the experts each (expert_group.h), of which this is one; Model sets
  // it. A pass may then be without samples. Null: all are here.
  const ExpertGroup* experts = nullptr;
  // The slices of the batch (batch_group.h), of which this pass has one, perhaps without samples:
  // batch norm takes the statistics of all of them and reports these. It outlives backward. Null:
  // its own.
  const BatchGroup* batch = nullptr;
};

struct BlockParameter {
  std::string name;           // inside the block, for example "conv1.weight"
  torch::Tensor tensor = {};  // an f32 leaf
  Init init = {};
  Split split = Split::kNone;
  std::int64_t split_units = 0;  // TensorPartition::units
  std::int64_t stacked = 1;      // TensorPartition::stacked
  std::int64_t expert = -1;      // TensorPartition::expert
  bool has_addends = false;      // TensorPartition::has_addends
  // Only layers' products use it, which round it first in passes of 16 bits (precision.h): such
  // passes come to the same bits where it is rounded already. Not of what another block borrows.
  bool products_only = false;
  bool decays = true;      // weight decay applies (not to norms and biases)
  std::string owner = {};  // the block it is borrowed from; empty: this one
};

struct BlockStatistic {
  std::string name;  // inside the block, for example "norm1.running_mean"
  torch::Tensor tensor;
  Split split = Split::kNone;
};

struct NamedBlock;
class Adapter;

// A layer of a block that computes y = x · weightᵀ, so that an adapter (adapter.h) can be put
// beside it.
struct AdaptableLayer {
  std::string name;  // inside the block; its matrix is the parameter "<name>.weight"
  std::shared_ptr<Adapter> adapter;
};

// A number that a step tells besides its loss, under its name as a metric.
struct BlockMetric {
  std::string name;
  double value = 0;
};

// One replica of a block belongs to one lane at a time.
class Block {
 public:
  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  virtual ~Block() = default;

  virtual torch::Tensor forward(torch::Tensor input, PassContext& context) = 0;

  // Whether it can compute a rank's positions alone (PassContext::sequences).
  virtual bool shares_sequences() const { return false; }

  // What a step's statistics, merged over all slices and in the order of statistics(), say to
  // people.
  virtual std::vector<BlockMetric> tell(std::span<const torch::Tensor>) const { return {}; }

  const std::vector<BlockParameter>& parameters() const noexcept { return parameters_; }
  const std::vector<BlockStatistic>& statistics() const noexcept { return statistics_; }
  const std::vector<BlockParameter>& borrowed() const noexcept { return borrowed_; }
  const std::vector<AdaptableLayer>& layers() const noexcept { return layers_; }

  // For the layers a block is made of, in forward order. `parameter.tensor` undefined: a new one of
  // `shape`, not yet initialised. Returns the leaf; it stays the same object for the block's life.
  torch::Tensor add_parameter(BlockParameter parameter, torch::IntArrayRef shape);
  // The same leaf as `owner` uses, one of its parameters: weights that two blocks tie. Where
  // `owner` is not part of a model (Model::part), this block has a copy of its own, under the same
  // name.
  torch::Tensor borrow(const NamedBlock& owner, const std::string& parameter);
  // A running statistic (not trained, merged over slices), f32 [channels] filled with `value`. In
  // training, forward pushes one of these for each (PassContext::statistics). With Split::kColumn
  // it is of channels that are cut, and each rank has that of its own.
  torch::Tensor add_statistic(std::string name, std::int64_t channels, double value,
                              Split split = Split::kNone);
  // Says that a layer of it normalises by statistics of the batch.
  void add_batch_norm() noexcept { has_batch_norm_ = true; }
  bool has_batch_norm() const noexcept { return has_batch_norm_; }
  // Says that a layer is adaptable. What it may have beside its matrix, from now on or later.
  std::shared_ptr<Adapter> add_layer(std::string name);

 private:
  std::vector<BlockParameter> parameters_;
  std::vector<BlockParameter> borrowed_;
  std::vector<BlockStatistic> statistics_;
  std::vector<AdaptableLayer> layers_;
  bool has_batch_norm_ = false;
};

struct NamedBlock {
  std::string name;
  std::shared_ptr<Block> block;
};

// Runs any torch::nn::Module with Tensor forward(Tensor) as a block; its parameters start as they
// were constructed and are not cut. The module may hold no buffers (batch norm of libtorch's own
// would update them in an order that depends on the lanes) and should draw no random numbers.
template <class Module>
class ModuleBlock final : public Block {
 public:
  explicit ModuleBlock(std::shared_ptr<Module> module) : module_(std::move(module)) {
    MUSTER_CHECK(module_->buffers().empty(), "a module with buffers cannot run as a block");
    for (const auto& item : module_->named_parameters())
      add_parameter({.name = item.key(), .tensor = item.value(), .decays = item.value().dim() > 1},
                    item.value().sizes());
  }
  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    if (module_->is_training() != context.training) module_->train(context.training);
    return module_->forward(std::move(input));
  }

 private:
  std::shared_ptr<Module> module_;
};

}  // namespace muster::models
