#pragma once
// A model: an ordered list of named blocks with one loss, published so that any strategy can run,
// replicate or cut it. It does not know that it is parallel.
//
// Threads: one model object belongs to one lane at a time; replicas of a model may run forward and
// backward at once. Whoever changes the shared values (optimizer, apply_statistics, initialize)
// does so while no replica runs. Failures: forward and loss throw what libtorch throws (wrong
// shapes, out of memory); run them inside catch_torch (torch_error.h), which turns that into a
// Status.

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "muster/base/result.h"
#include "muster/models/block.h"
#include "muster/models/context_group.h"
#include "muster/models/device.h"
#include "muster/models/expert_group.h"
#include "muster/models/measure.h"
#include "muster/models/partition.h"
#include "muster/models/tensor_group.h"

namespace muster::models {

struct Parameter {
  std::string name;      // "<block>.<parameter>", stable: the name in checkpoints
  torch::Tensor tensor;  // contiguous leaf; its gradient is this replica's own
  TensorPartition partition;
  Init init;
  bool decays = true;
  bool borrowed = false;       // another part of the model owns and updates it; see Model::part
  TensorCut cut = {};          // what of it is here; see Model::split
  bool products_only = false;  // BlockParameter::products_only
};

struct Statistic {
  std::string name;      // "<block>.<…>", for example "stem.norm.running_mean"
  torch::Tensor tensor;  // f32 [channels], shared by all replicas, read in evaluation only
  TensorPartition partition = {};
  TensorCut cut = {};  // what of it is here; see Model::split
};

struct LossSum {
  torch::Tensor sum;  // scalar with grad: sum over targets; the caller divides by all slices' count
  torch::Tensor correct;  // scalar i64: targets whose largest logit is the right one
  std::int64_t targets = 0;
  std::vector<double> measured = {};  // of measure_with(), in evaluations: sums over targets
};

// The mean of what `measure` gives, as a model's loss; `correct` is 0. `name`: as in sum_of().
std::function<LossSum(const torch::Tensor&, const torch::Tensor&)> loss_of(Measure measure,
                                                                           std::string name);

// Cross entropy of logits [n, classes] or [n, positions, classes] against integer targets of the
// leading shape; summed. The loss of all shipped models. `label_smoothing` in [0, 1): that share of
// the target is spread evenly over all classes (Szegedy et al. 2016; torch.nn.CrossEntropyLoss).
LossSum cross_entropy_sum(const torch::Tensor& logits, const torch::Tensor& target,
                          double label_smoothing = 0);

class Model {
 public:
  // Makes the blocks; called once per replica, each time with new parameters of the same names.
  using Builder = std::function<std::vector<NamedBlock>()>;
  using Loss = std::function<LossSum(const torch::Tensor& logits, const torch::Tensor& target)>;

  // `family`: "mlp", "resnet", …, for messages. Without a loss: cross_entropy_sum.
  Model(std::string family, Builder builder, Loss loss = {});

  // Training steps take this loss, evaluations the one the model was made with.
  void train_with(Loss loss) { training_loss_ = std::move(loss); }
  // Both take this one.
  void learn_by(Loss loss) { training_loss_ = loss_ = std::move(loss); }
  // Evaluations find these besides.
  struct Metric {
    std::string name;
    Measure measure;
  };
  void measure_with(std::vector<Metric> metrics) { metrics_ = std::move(metrics); }
  std::size_t measures() const noexcept { return metrics_.size(); }
  // Training steps of a model without a loss of its own smooth the targets; see
  // cross_entropy_sum().
  void smooth_labels(double share) { label_smoothing_ = share; }

  // Where its tensors are, and those of models made from it: the device of the scope in which it
  // was made (device.h). Inputs and targets are brought there.
  torch::Device device() const noexcept { return device_; }

  // inputs: as the first block wants them; slices of any size >= 1 along axis 0.
  torch::Tensor forward(torch::Tensor inputs, PassContext& context);
  // One block of it; forward is all of them in order. For strategies that cut between blocks.
  torch::Tensor forward_block(std::size_t index, torch::Tensor input, PassContext& context);
  // In f32 whatever the precision of the pass.
  LossSum loss_sum(const torch::Tensor& logits, const torch::Tensor& target) const;
  LossSum evaluation_loss_sum(const torch::Tensor& logits, const torch::Tensor& target) const;

  // Another lane's copy: parameters and statistics share this model's storage, gradients do not.
  std::unique_ptr<Model> replicate() const;

  // A model of those blocks alone, in that order, whose parameters have the same names and are not
  // yet initialised, cut as they are here: for ranks that hold a part. One tied to a block that is
  // not among them is there as well, `borrowed`, after the parameters of the first block that uses
  // it.
  std::unique_ptr<Model> part(const std::vector<std::size_t>& blocks) const;

  // Tensor parallelism: keeps of each tensor that its partition spec cuts this rank's part, with
  // the values that it has, of running statistics as well, and computes from here on together with
  // the other ranks of the group, in every pass. What is not cut is alike on all of them, as are
  // its gradients (but see TensorGroup::cuts_sequence and TensorPartition::has_addends). After
  // freeze() and recompute(), once, before it is replicated, or parts of it are made. kUnsupported
  // says why such a model cannot be cut; it is as it was then.
  Status split(std::shared_ptr<const TensorGroup> group);

  // Context parallelism: from here on forward takes whole sequences and computes this rank's
  // positions of them, together with the other ranks of the group, and loss_sum() takes logits of
  // these and all targets. Parameters are whole and alike; what backward finds for them, and the
  // loss, is of the positions here: the sum over ranks is still to be made. After freeze(),
  // recompute() and split(), once, before it is replicated, or parts of it are made. kUnsupported
  // says why ranks cannot share the sequences of such a model, as where split() has cut them
  // already; it is as it was then.
  Status share_sequences(std::shared_ptr<const ContextGroup> group);

  // Expert parallelism: keeps of the experts this rank's share, with the values that they have, and
  // computes from here on together with the other ranks of the group, in every pass, each of its
  // own samples. Parameters of experts leave parameters(): what backward finds for them is the
  // group's (ExpertGroup::found). After freeze(), recompute() and split(), with which each rank has
  // a part of its experts, once, also of a part(); not with share_sequences(), and not to be
  // replicated. kUnsupported says why the experts of such a model cannot be dealt to ranks; it is
  // as it was then.
  Status share_experts(std::shared_ptr<const ExpertGroup> group);

  // Takes the parameters for which `chosen` holds out of parameters(): they keep their values, get
  // no gradient, and so have no part in reductions and optimizers. Before it is replicated or cut.
  void freeze(const std::function<bool(const Parameter&)>& chosen);

  // Backward computes the blocks for whose name `chosen` holds again, so that of their passes only
  // the input is kept (recompute.h). No bit changes. Before it is replicated or cut.
  void recompute(const std::function<bool(const std::string& block)>& chosen);
  bool recomputes(std::size_t block) const { return recomputed_.at(block); }

  // Initial values of all parameters, keyed by (seed, name).
  void initialize(std::uint64_t seed);

  const std::vector<NamedBlock>& blocks() const noexcept { return blocks_; }
  const std::vector<Parameter>& parameters() const noexcept {
    return parameters_;
  }  // those that are trained, forward order
  const std::vector<Parameter>& frozen() const noexcept { return frozen_; }  // forward order
  // Of the experts here, those that are trained, where experts are shared; forward order.
  const std::vector<Parameter>& expert_parameters() const noexcept { return expert_parameters_; }
  // Of a layer, trained or frozen, as long as none are dealt; 0: it has no layers of experts.
  std::int64_t expert_count() const;
  bool has_batch_norm() const;  // else PassContext::batch changes nothing
  const std::vector<Statistic>& statistics() const noexcept {
    return statistics_;
  }                                                      // forward order
  std::vector<torch::Tensor> parameter_tensors() const;  // for torch::autograd::grad

  // running = (1 - momentum) · running + momentum · merged. `merged`: the mean over all slices of
  // what they pushed to PassContext::statistics, weighted by samples; same order as statistics().
  void apply_statistics(std::span<const torch::Tensor> merged, double momentum = 0.1);

  // What the blocks say of a step's statistics, `merged` as above: of each name the largest value,
  // the worst block's.
  std::vector<BlockMetric> metrics(std::span<const torch::Tensor> merged) const;

  std::int64_t parameter_count() const noexcept;  // with frozen ones and experts here
  std::int64_t trained_count() const noexcept;
  const std::string& family() const noexcept { return family_; }
  std::string describe() const;  // "resnet: 5 blocks, 77754 parameters (303.7 KiB), 14 statistics"

 private:
  void publish(const NamedBlock& named);
  void publish(const std::string& block, const BlockParameter& parameter);
  Status check_split(const TensorGroup& group) const;
  bool is_spread() const noexcept { return group_ || sequences_ || experts_; }
  const Parameter* head_of_vocabulary() const;  // the output layer that is one; null: none
  void keep_parts(std::shared_ptr<const TensorGroup> group);  // null: all
  Status check_experts(std::int64_t experts, std::int32_t ranks) const;
  void keep_experts(Share here);
  torch::Tensor own_targets(const torch::Tensor& target) const;
  // Of the whole model, where ranks have a part of each sample's logits; else 0.
  std::int64_t cut_classes() const;
  LossSum loss_sum(const torch::Tensor& logits, const torch::Tensor& target, const Loss& loss,
                   double label_smoothing) const;
  void share_storage_of(const Model& other);
  void freeze_as_in(const Model& other);
  void recompute_as_in(const Model& other);

  std::string family_;
  Builder builder_;
  Loss loss_;
  Loss training_loss_ = loss_;  // as loss_, empty: cross entropy
  double label_smoothing_ = 0;
  std::vector<Metric> metrics_;
  std::shared_ptr<const TensorGroup> group_;
  std::shared_ptr<const ContextGroup> sequences_;
  std::shared_ptr<const ExpertGroup> experts_;
  torch::Device device_;  // of all its tensors
  std::vector<NamedBlock> blocks_;
  std::vector<bool> recomputed_ = std::vector<bool>(blocks_.size());
  std::vector<Parameter> parameters_;
  std::vector<Parameter> frozen_;
  std::vector<Parameter> expert_parameters_;
  std::vector<Statistic> statistics_;
};

}  // namespace muster::models
