#pragma once
// A block: one step of a model's forward pass, the unit in which models are published, cut into
// pipeline stages and recomputed. It says of each parameter how to start it and how it may be cut.

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "muster/base/random.h"
#include "muster/models/init.h"
#include "muster/models/partition.h"

namespace muster::models {

// What one forward pass of one slice is given. One per lane and slice; never shared by threads.
struct PassContext {
  bool training = true;
  RandomStream random;  // keyed by (seed, "forward", step, slice) already; blocks fork it by name
  // Batch-norm layers append (mean, unbiased variance), both f32 [channels], in forward order, when
  // training. Null: the caller does not want them. Running statistics are never touched here.
  std::vector<torch::Tensor>* statistics = nullptr;
};

struct ParameterPlan {
  std::string name;  // inside the block, for example "conv1.weight"
  Init init;
  Split split = Split::kNone;
  std::int64_t split_units = 0;  // TensorPartition::units
  bool decays = true;            // weight decay applies (not to norms and biases)
};

// One replica of a block belongs to one lane at a time.
class Block : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor input, PassContext& context) = 0;

  const std::vector<ParameterPlan>& plans() const noexcept { return plans_; }

 protected:
  // Registers an f32 parameter, not yet initialised. In PassContext's words: called in forward
  // order.
  torch::Tensor add_parameter(ParameterPlan plan, torch::IntArrayRef shape);
  // Registers a running statistic (not trained, merged over slices), filled with `value`.
  torch::Tensor add_statistic(const std::string& name, torch::IntArrayRef shape, double value);

 private:
  std::vector<ParameterPlan> plans_;
};

struct NamedBlock {
  std::string name;
  std::shared_ptr<Block> block;
};

// Runs any torch::nn::Module with forward(Tensor) as a block; its parameters keep their values at
// initialisation (its replicas share them) and are not cut. `Module` must be free of batch norm and
// dropout of libtorch's own: those draw and update in ways that depend on the number of lanes.
template <class Module>
class ModuleBlock final : public Block {
 public:
  explicit ModuleBlock(std::shared_ptr<Module> module)
      : module_(register_module("module", std::move(module))) {}
  torch::Tensor forward(torch::Tensor input, PassContext&) override {
    return module_->forward(std::move(input));
  }

 private:
  std::shared_ptr<Module> module_;
};

}  // namespace muster::models
