#pragma once
// Optimizers over an ordered list of parameters. One step = begin_step once, then update of every
// parameter exactly once, in ranges, by any number of threads at once as long as the ranges do not
// overlap: each parameter is updated by single-threaded kernels, so how the ranges are dealt never
// changes a bit.

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/base/result.h"

namespace muster::optim {

// What an optimizer needs to know of a parameter. `tensor` shares the model's storage, contiguous.
struct OptimizedParameter {
  std::string name;
  torch::Tensor tensor;
  bool decays = true;      // whether weight decay applies where the spec excludes norms and biases
  double rate_factor = 1;  // of the learning rate
  std::optional<double> weight_decay = {};  // of its own; none: as the spec has it
};

struct StateTensor {
  std::string name;  // "optimizer/<parameter>/momentum", "…/exp_avg", "…/exp_avg_sq", "…/ema"
  torch::Tensor tensor;
};

// Parameters [begin, end) of the list.
struct ParameterRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const noexcept { return end - begin; }
};

// torch.optim.SGD with dampening 0.
struct SgdSpec {
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
  bool decoupled_decay =
      false;  // shrink the weights by lr · decay instead of adding to the gradient
  bool decay_norms_and_biases = true;  // PyTorch's default
};

// torch.optim.AdamW: Loshchilov and Hutter 2019; decoupled decay.
struct AdamWSpec {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  bool decay_norms_and_biases = true;
};

// Layer-wise adaptive rate scaling, You, Gitman, Ginsburg 2017 (arXiv 1708.03888), algorithm 1 with
// the trust coefficient of equation 6: SGD whose rate for a tensor is multiplied by
// trust_coefficient · ‖w‖ / (‖g‖ + weight_decay · ‖w‖).
struct LarsSpec {
  double momentum = 0.9;
  double weight_decay = 0;
  double trust_coefficient = 0.001;
  bool scale_norms_and_biases = true;  // else they take the plain rate, and do not decay
};

// You et al. 2020 (arXiv 1904.00962), algorithm 2: AdamW's direction r + weight_decay · w, its rate
// multiplied by ‖w‖ / ‖r + weight_decay · w‖.
struct LambSpec {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
  bool scale_norms_and_biases = true;  // else they take the plain rate, and do not decay
};

// An exponential moving average of the weights (Polyak and Juditsky 1992; Tarvainen and Valpola
// 2017), beside them and part of the optimizer's state: average = d · average + (1 - d) · weights
// after each update.
struct AverageSpec {
  double decay = 0;    // d; 0: no average
  bool warmup = true;  // at update t, d is (1 + t) / (10 + t) while that is less (as TensorFlow's)
};

using OptimizerSpec = std::variant<SgdSpec, AdamWSpec, LarsSpec, LambSpec>;

class NormScaled;
class OffloadedState;

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Opens step number steps() + 1. No update may be running.
  void begin_step(double learning_rate);

  // gradients[i] belongs to parameter range.begin + i: same shape and dtype, contiguous. Each is
  // divided by `divisor` first, in place (the number of targets, or that over the clip scale).
  // Thread-safe for disjoint ranges. Throws c10::Error from libtorch; preconditions are checked.
  void update(ParameterRange range, std::span<const torch::Tensor> gradients, double divisor = 1);

  // The same object where a tensor's update depends on norms of the whole tensor: who holds only
  // parts of tensors has to update in two halves (norm_scaled.h).
  virtual NormScaled* norm_scaled() noexcept { return nullptr; }

  // Tensors to checkpoint besides the parameters, in a fixed order, live: loading copies into them.
  virtual std::vector<StateTensor> state() = 0;
  std::uint64_t state_bytes();
  bool is_offloaded() const noexcept { return offloaded_ != nullptr; }  // not in memory

  // Averages from now on, beginning with the weights as they are.
  void keep_average(const AverageSpec& spec);
  // By parameter; empty: none is kept.
  const std::vector<torch::Tensor>& average() const noexcept { return average_; }

  // Steps begun. Part of the state: set it when loading a checkpoint.
  std::int64_t steps() const noexcept { return steps_; }
  void set_steps(std::int64_t steps) noexcept { steps_ = steps; }

  std::size_t size() const noexcept { return parameters_.size(); }

 protected:
  struct Decay {  // of a spec
    double weight_decay = 0;
    bool norms_and_biases = true;
  };
  // `offloaded`: where what it remembers lies; none: in memory.
  Optimizer(std::vector<OptimizedParameter> parameters, Decay decay,
            std::shared_ptr<OffloadedState> offloaded);

  // The tensors of one kernel call, index by index; gradients divided already.
  struct Group {
    std::vector<std::size_t> index = {};  // into the parameter list
    std::vector<torch::Tensor> parameters = {};
    std::vector<torch::Tensor> gradients = {};
    double learning_rate = 0;
    double weight_decay = 0;
  };
  virtual void update_group(const Group& group) = 0;

  // Of a range, with divided gradients.
  std::vector<Group> groups_of(ParameterRange range, std::span<const torch::Tensor> gradients,
                               double divisor) const;

  // After the update of these parameters.
  void add_to_average(ParameterRange range);

  // Does something to each parameter of the range that needs its state: to all at once, or where
  // that is offloaded to a few at a time, whose state is fetched before and released after.
  void in_windows(ParameterRange range, const std::function<void(ParameterRange)>& body);

  // One for each parameter, for what the optimizer remembers. Once for each kind.
  std::vector<torch::Tensor> zeros();
  struct Kind {
    std::string_view name;                      // "exp_avg"
    const std::vector<torch::Tensor>& tensors;  // one a parameter, or none
  };
  // With the average, if there is one.
  std::vector<StateTensor> named_state(std::initializer_list<Kind> kinds) const;

  const std::vector<OptimizedParameter>& parameters() const noexcept { return parameters_; }
  double learning_rate_of(std::size_t parameter) const noexcept {
    return learning_rate_ * parameters_[parameter].rate_factor;
  }
  double weight_decay_of(std::size_t parameter) const noexcept { return decays_[parameter]; }

 private:
  ParameterRange window_at(std::size_t begin, std::size_t end) const;
  void fetch(ParameterRange window) const;
  void release(ParameterRange window) const;

  std::vector<OptimizedParameter> parameters_;
  std::vector<double> decays_;  // by parameter
  const std::shared_ptr<OffloadedState> offloaded_;
  std::vector<std::vector<torch::Tensor>> states_;  // by parameter, where they are offloaded
  AverageSpec average_spec_;
  std::vector<torch::Tensor> average_;
  double learning_rate_ = 0;
  std::int64_t steps_ = 0;
};

// An optimizer of these parameters, or parts of them, and of no others.
using CreateOptimizer =
    std::function<Result<std::unique_ptr<Optimizer>>(std::vector<OptimizedParameter>)>;

// kInvalid names the value out of range. `offloaded`: where its state lies; none: in memory.
Result<std::unique_ptr<Optimizer>> create_optimizer(
    const OptimizerSpec& spec, std::vector<OptimizedParameter> parameters,
    const AverageSpec& average = {}, std::shared_ptr<OffloadedState> offloaded = nullptr);

}  // namespace muster::optim
