#include "muster/optim/optimizer.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>

#include "muster/base/check.h"
#include "muster/optim/offloaded_state.h"
#include "muster/optim/single_thread.h"

namespace muster::optim {
namespace {

void check_gradient(const OptimizedParameter& parameter, const torch::Tensor& gradient) {
  MUSTER_CHECK(gradient.defined() && gradient.sizes() == parameter.tensor.sizes() &&
                   gradient.scalar_type() == parameter.tensor.scalar_type() &&
                   gradient.is_contiguous(),
               "the gradient of " + parameter.name + " has another shape, dtype or layout");
}

}  // namespace

Optimizer::Optimizer(std::vector<OptimizedParameter> parameters, Decay decay,
                     std::shared_ptr<OffloadedState> offloaded)
    : parameters_(std::move(parameters)), offloaded_(std::move(offloaded)) {
  if (offloaded_) states_.resize(parameters_.size());
  for (auto& parameter : parameters_) {
    MUSTER_CHECK(parameter.tensor.is_contiguous(), parameter.name + " is not contiguous");
    parameter.tensor = parameter.tensor.detach();
    const bool applies = parameter.decays || decay.norms_and_biases;
    decays_.push_back(parameter.weight_decay.value_or(applies ? decay.weight_decay : 0));
  }
}

void Optimizer::begin_step(double learning_rate) {
  learning_rate_ = learning_rate;
  ++steps_;
}

void Optimizer::update(ParameterRange range, std::span<const torch::Tensor> gradients,
                       double divisor) {
  MUSTER_CHECK(gradients.size() == range.size(), "one gradient for each parameter of the range");
  const at::NoGradGuard no_grad;
  const SingleThread single;
  in_windows(range, [&](ParameterRange window) {
    const auto own = gradients.subspan(window.begin - range.begin, window.size());
    for (const Group& group : groups_of(window, own, divisor)) update_group(group);
    add_to_average(window);
  });
}

// Parameters whose state fits, and one at least.
ParameterRange Optimizer::window_at(std::size_t begin, std::size_t end) const {
  ParameterRange window{begin, begin};
  for (std::uint64_t bytes = 0; window.end < end; ++window.end) {
    for (const torch::Tensor& tensor : states_[window.end]) bytes += tensor.nbytes();
    if (bytes > offloaded_->window() && window.size() > 0) break;
  }
  return window;
}

void Optimizer::fetch(ParameterRange window) const {
  for (std::size_t i = window.begin; i < window.end; ++i) offloaded_->fetch(states_[i]);
}

void Optimizer::release(ParameterRange window) const {
  for (std::size_t i = window.begin; i < window.end; ++i) offloaded_->release(states_[i]);
}

void Optimizer::in_windows(ParameterRange range, const std::function<void(ParameterRange)>& body) {
  if (!offloaded_) return body(range);
  MUSTER_CHECK(range.end <= parameters_.size(), "parameters that there are");
  ParameterRange now = window_at(range.begin, range.end);
  fetch(now);
  while (now.size() > 0) {
    const ParameterRange next = window_at(now.end, range.end);
    fetch(next);
    body(now);
    release(now);
    now = next;
  }
}

void Optimizer::keep_average(const AverageSpec& spec) {
  average_spec_ = spec;
  average_ = zeros();
  if (offloaded_ && !offloaded_->room()) return;
  for (std::size_t i = 0; i < average_.size(); ++i) average_[i].copy_(parameters_[i].tensor);
}

void Optimizer::add_to_average(ParameterRange range) {
  if (average_.empty()) return;
  const auto t = static_cast<double>(steps_);
  const double decay = average_spec_.warmup ? std::min(average_spec_.decay, (1 + t) / (10 + t))
                                            : average_spec_.decay;
  for (std::size_t i = range.begin; i < range.end; ++i)
    average_[i].lerp_(parameters_[i].tensor, 1 - decay);
}

std::vector<Optimizer::Group> Optimizer::groups_of(ParameterRange range,
                                                   std::span<const torch::Tensor> gradients,
                                                   double divisor) const {
  MUSTER_CHECK(range.begin <= range.end && range.end <= parameters_.size() &&
                   gradients.size() == range.size(),
               "one gradient for each parameter of the range");
  std::vector<Group> groups;
  const auto group_of = [&](std::size_t i) -> Group& {
    const double rate = learning_rate_of(i), decay = weight_decay_of(i);
    for (Group& known : groups)
      if (known.learning_rate == rate && known.weight_decay == decay) return known;
    return groups.emplace_back(Group{.learning_rate = rate, .weight_decay = decay});
  };
  for (std::size_t i = range.begin; i < range.end; ++i) {
    const auto& gradient = gradients[i - range.begin];
    check_gradient(parameters_[i], gradient);
    Group& group = group_of(i);
    group.index.push_back(i);
    group.parameters.push_back(parameters_[i].tensor);
    group.gradients.push_back(gradient);
  }
  if (divisor != 1)
    for (Group& group : groups) at::_foreach_div_(group.gradients, divisor);
  return groups;
}

std::vector<torch::Tensor> Optimizer::zeros() {
  std::vector<torch::Tensor> tensors;
  tensors.reserve(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const torch::Tensor& like = parameters_[i].tensor;
    const bool offloads = offloaded_ && like.is_cpu();
    tensors.push_back(offloads ? offloaded_->zeros_like(like) : torch::zeros_like(like));
    if (offloads) states_[i].push_back(tensors.back());
  }
  return tensors;
}

std::uint64_t Optimizer::state_bytes() {
  std::uint64_t bytes = 0;
  for (const StateTensor& tensor : state()) bytes += tensor.tensor.nbytes();
  return bytes;
}

std::vector<StateTensor> Optimizer::named_state(std::initializer_list<Kind> kinds) const {
  std::vector<StateTensor> state;
  const auto add = [&](std::size_t i, const Kind& kind) {
    if (!kind.tensors.empty())
      state.push_back(
          {fmt::format("optimizer/{}/{}", parameters_[i].name, kind.name), kind.tensors[i]});
  };
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    for (const Kind& kind : kinds) add(i, kind);
    add(i, {"ema", average_});
  }
  return state;
}

}  // namespace muster::optim
