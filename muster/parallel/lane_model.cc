#include "muster/parallel/lane_model.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <utility>

#include "muster/parallel/extras.h"
#include "muster/parallel/gradient_hook.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {

LaneModel::LaneModel(std::unique_ptr<models::Model> model, models::Compute compute)
    : model_(std::move(model)), compute_(compute), delivered_(model_->parameters().size()) {
  for (std::size_t i = 0; i < model_->parameters().size(); ++i) {
    when_gradient_is_found(model_->parameters()[i].tensor,
                           [this, i](at::Tensor gradient) { deliver(i, std::move(gradient)); });
  }
}

LaneModel::~LaneModel() = default;

std::vector<std::int64_t> LaneModel::slot_counts(const models::Model& model) {
  std::vector<std::int64_t> counts{static_cast<std::int64_t>(extra_count(model))};
  const auto& parameters = model.parameters();
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p)
    counts.push_back(p->tensor.numel());
  return counts;
}

models::LossSum LaneModel::forward(const Examples& examples, const LanePass& pass,
                                   std::vector<at::Tensor>& statistics) {
  models::PassContext context{.training = true,
                              .random = pass.random,
                              .statistics = &statistics,
                              .auxiliary_weight = pass.sample_share * pass.loss_scale,
                              .compute = compute_,
                              .batch = pass.batch};
  return model_->loss_sum(model_->forward(examples.inputs, context), examples.targets);
}

Result<Lane::Times> LaneModel::run(const Examples& examples, const LanePass& pass,
                                   std::span<const float> notes, const Clock& clock) {
  const TimePoint begin = clock.now();
  tell("forward", pass.unit);
  std::vector<at::Tensor> statistics;
  const models::LossSum loss = forward(examples, pass, statistics);
  add_extras(loss, statistics, pass, notes);
  const TimePoint middle = clock.now();
  tell("backward", pass.unit);
  current_ = &pass;
  std::fill(delivered_.begin(), delivered_.end(), false);
  // A loss that no trained parameter takes part in has nothing to go back to.
  if (loss.sum.requires_grad())
    loss.sum.backward(at::scalar_tensor(pass.weight * pass.loss_scale, loss.sum.options()));
  add_missing(pass);
  current_ = nullptr;
  tell("", pass.unit);
  return Times{middle - begin, clock.now() - middle};
}

// Gradients asked for in this way do not pass through the hooks.
void LaneModel::warm_up(const Examples& examples) {
  std::vector<at::Tensor> statistics;
  const models::LossSum loss =
      forward(examples, {.random = RandomStream(0, "warm-up")}, statistics);
  (void)torch::autograd::grad({loss.sum}, model_->parameter_tensors(), {}, std::nullopt, false,
                              /*allow_unused=*/true);
}

void LaneModel::run_empty(std::int32_t unit, std::span<const float> notes) {
  write_empty_extras(extras_, *model_, notes);
  sink_->add(unit, 0, extras_, 0, 1);
  std::fill(delivered_.begin(), delivered_.end(), false);
  add_missing({.unit = unit, .random = RandomStream(0, "none")});
}

void LaneModel::add_extras(const models::LossSum& loss, const std::vector<at::Tensor>& statistics,
                           const LanePass& pass, std::span<const float> notes) {
  if (pass.pass > 0) notes = {};  // once a unit
  write_extras(extras_, *model_, loss.sum.item<double>() * pass.weight,
               loss.correct.item<double>() * pass.weight, notes, statistics, pass.sample_share);
  sink_->add(pass.unit, 0, extras_, pass.pass, pass.passes);
}

void LaneModel::deliver(std::size_t parameter, at::Tensor gradient) {
  const auto slot = static_cast<std::int32_t>(delivered_.size() - parameter);
  gradient = on_host(gradient);
  delivered_[parameter] = true;
  sink_->add(current_->unit, slot, floats_of(gradient), current_->pass, current_->passes);
}

// Parameters that this pass did not use have no gradient; the sum still wants one.
void LaneModel::add_missing(const LanePass& pass) {
  for (std::size_t i = 0; i < delivered_.size(); ++i) {
    if (delivered_[i]) continue;
    const auto count = static_cast<std::size_t>(model_->parameters()[i].tensor.numel());
    if (zeros_.size() < count) zeros_.resize(count);
    sink_->add(pass.unit, static_cast<std::int32_t>(delivered_.size() - i),
               std::span<const float>(zeros_).first(count), pass.pass, pass.passes);
  }
}

}  // namespace muster::parallel
