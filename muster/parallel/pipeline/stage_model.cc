#include "muster/parallel/pipeline/stage_model.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "muster/base/check.h"
#include "muster/parallel/extras.h"
#include "muster/parallel/gradient_hook.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {

StageModel::StageModel(std::unique_ptr<models::Model> part, layout::Partition chunks,
                       models::Compute compute)
    : model_(std::move(part)), chunks_(std::move(chunks)), compute_(compute) {
  const auto& parameters = model_->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].borrowed) owned_.push_back(i);
    when_gradient_is_found(parameters[i].tensor,
                           [this, i](at::Tensor gradient) { found(i, std::move(gradient)); });
  }
  slot_.resize(parameters.size());
  for (std::size_t i = 0; i < owned_.size(); ++i)
    slot_[owned_[i]] = static_cast<std::int32_t>(owned_.size() - i);
  find_uses();
}

StageModel::~StageModel() = default;

// A recomputed block finds all its gradients at once: in two parts it would compute twice.
void StageModel::find_uses() {
  uses_.resize(chunks_.size());
  for (std::size_t p = 0; p < slot_.size(); ++p) {
    const std::vector<std::size_t> blocks = blocks_using(p);
    MUSTER_CHECK(!blocks.empty(), "every parameter belongs to a block");
    std::set<std::size_t> chunks;
    for (const std::size_t block : blocks) chunks.insert(chunk_of(block));
    home_.push_back(*chunks.begin());  // backward comes to it last
    const bool waits =
        chunks.size() == 1 && !model_->parameters()[p].borrowed &&
        std::ranges::none_of(blocks, [this](std::size_t b) { return model_->recomputes(b); });
    for (const std::size_t chunk : chunks)
      (waits ? uses_[chunk].later : uses_[chunk].now).push_back(p);
  }
}

std::vector<std::size_t> StageModel::blocks_using(std::size_t parameter) const {
  const at::Tensor& tensor = model_->parameters()[parameter].tensor;
  const auto is_it = [&](const auto& used) { return used.tensor.is_same(tensor); };
  std::vector<std::size_t> blocks;
  for (std::size_t b = 0; b < model_->blocks().size(); ++b) {
    const models::Block& block = *model_->blocks()[b].block;
    if (std::ranges::any_of(block.parameters(), is_it) ||
        std::ranges::any_of(block.borrowed(), is_it))
      blocks.push_back(b);
  }
  return blocks;
}

std::size_t StageModel::chunk_of(std::size_t block) const {
  return static_cast<std::size_t>(layout::chunk_of(chunks_, static_cast<std::int32_t>(block)));
}

std::vector<std::int64_t> StageModel::slot_counts() const {
  std::vector<std::int64_t> counts{static_cast<std::int64_t>(extra_count(*model_))};
  for (auto p = owned_.rbegin(); p != owned_.rend(); ++p)
    counts.push_back(model_->parameters()[*p].tensor.numel());
  return counts;
}

at::Tensor StageModel::run(std::size_t chunk, at::Tensor activation, models::PassContext& context) {
  for (std::int32_t b = chunks_[chunk].begin; b < chunks_[chunk].end; ++b)
    activation = model_->forward_block(static_cast<std::size_t>(b), std::move(activation), context);
  return activation;
}

at::Tensor StageModel::run_training(std::size_t chunk, std::size_t micro, const at::Tensor& input,
                                    const LanePass& pass, at::Tensor& leaf) {
  leaf = input.detach().to(model_->device());
  if (leaf.is_floating_point()) leaf.set_requires_grad(true);
  models::PassContext context{.training = true,
                              .random = pass.random,
                              .statistics = &statistics_[micro],
                              .auxiliary_weight = pass.sample_share * pass.loss_scale,
                              .compute = compute_};
  return run(chunk, leaf, context);
}

at::Tensor StageModel::forward(std::size_t chunk, std::size_t micro, const at::Tensor& input,
                               const LanePass& pass) {
  Run& kept = runs_[{chunk, micro}];
  kept.output = run_training(chunk, micro, input, pass, kept.input);
  return kept.output.detach();
}

StageModel::Loss StageModel::forward_loss(std::size_t chunk, std::size_t micro,
                                          const at::Tensor& input, const at::Tensor& targets,
                                          const LanePass& pass) {
  Run& kept = runs_[{chunk, micro}];
  const at::Tensor logits = run_training(chunk, micro, input, pass, kept.input);
  const models::LossSum loss = model_->loss_sum(logits, targets);
  kept.output = loss.sum;
  return {loss.sum.item<double>() * pass.weight, loss.correct.item<double>() * pass.weight};
}

void StageModel::add_extras(std::size_t micro, const Loss& loss, std::span<const float> notes,
                            const LanePass& pass) {
  const auto statistics = statistics_.extract(micro);
  if (pass.pass > 0) notes = {};  // once a unit
  write_extras(floats_, *model_, loss.loss, loss.correct, notes, statistics.mapped(),
               pass.sample_share);
  sink_->add(pass.unit, 0, floats_, pass.pass, pass.passes);
}

at::Tensor StageModel::backward(std::size_t chunk, std::size_t micro, const at::Tensor& gradient,
                                const LanePass& pass) {
  const Run run = take_run(chunk, micro);
  begin_backward(chunk, micro, pass);
  if (run.output.requires_grad())
    torch::autograd::backward({run.output}, {seed_of(run, gradient, pass)});
  end_backward(uses_[chunk].now);
  end_backward(uses_[chunk].later);
  return run.input.grad();
}

at::Tensor StageModel::backward_input(std::size_t chunk, std::size_t micro,
                                      const at::Tensor& gradient, const LanePass& pass) {
  const Run& kept = runs_.at({chunk, micro});
  if (!kept.input.requires_grad() || !kept.output.requires_grad())
    return backward(chunk, micro, gradient, pass);
  const Run run = take_run(chunk, micro);
  const Uses& uses = uses_[chunk];
  SplitBackward split = split_backward(run.output, seed_of(run, gradient, pass), run.input,
                                       tensors_of(uses.now), tensors_of(uses.later));
  begin_backward(chunk, micro, pass);
  found(uses.now, std::move(split.now));
  end_backward(uses.now);
  postponed_[{chunk, micro}] = std::move(split.later);
  return split.input;
}

void StageModel::backward_weight(std::size_t chunk, std::size_t micro, const LanePass& pass) {
  auto kept = postponed_.extract({chunk, micro});
  if (kept.empty()) return;  // done with the first part
  begin_backward(chunk, micro, pass);
  found(uses_[chunk].later, kept.mapped().find());
  end_backward(uses_[chunk].later);
}

StageModel::Run StageModel::take_run(std::size_t chunk, std::size_t micro) {
  auto kept = runs_.extract({chunk, micro});
  MUSTER_CHECK(!kept.empty(), "a chunk's backward follows its forward");
  return std::move(kept.mapped());
}

// No gradient: the output is the loss.
at::Tensor StageModel::seed_of(const Run& run, const at::Tensor& gradient, const LanePass& pass) {
  if (gradient.defined()) return gradient;
  return at::scalar_tensor(pass.weight * pass.loss_scale, run.output.options());
}

std::vector<at::Tensor> StageModel::tensors_of(const std::vector<std::size_t>& parameters) const {
  std::vector<at::Tensor> tensors;
  tensors.reserve(parameters.size());
  for (const std::size_t p : parameters) tensors.push_back(model_->parameters()[p].tensor);
  return tensors;
}

void StageModel::begin_backward(std::size_t chunk, std::size_t micro, const LanePass& pass) {
  backward_ = {chunk, micro, &pass, std::vector<bool>(slot_.size())};
}

// Of these parameters, those that this pass did not use get what other chunks found, or nothing.
void StageModel::end_backward(const std::vector<std::size_t>& parameters) {
  for (const std::size_t p : parameters) {
    if (home_[p] != backward_.chunk || backward_.delivered[p]) continue;
    if (model_->parameters()[p].borrowed) continue;
    const auto others = partial_.extract({p, backward_.micro});
    if (others.empty())
      deliver_zeros(p, *backward_.pass);
    else
      deliver(p, others.mapped(), *backward_.pass);
  }
}

void StageModel::found(const std::vector<std::size_t>& parameters,
                       std::vector<at::Tensor> gradients) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (gradients[i].defined()) found(parameters[i], std::move(gradients[i]));
}

// Uses of one parameter in two chunks, or on two ranks, add up before they count as one.
void StageModel::found(std::size_t parameter, at::Tensor gradient) {
  const bool last = home_[parameter] == backward_.chunk;
  if (!last || model_->parameters()[parameter].borrowed)
    return add_partial(parameter, backward_.micro, std::move(gradient));
  const auto others = partial_.extract({parameter, backward_.micro});
  deliver(parameter, others.empty() ? gradient : others.mapped() + gradient, *backward_.pass);
  backward_.delivered[parameter] = true;
}

void StageModel::add_partial(std::size_t parameter, std::size_t micro, at::Tensor gradient) {
  at::Tensor& sum = partial_[{parameter, micro}];
  sum = sum.defined() ? sum + gradient : std::move(gradient);
}

at::Tensor StageModel::take_borrowed(std::size_t micro, std::size_t parameter) {
  const auto whole = partial_.extract({parameter, micro});
  if (!whole.empty()) return whole.mapped();
  return at::zeros_like(model_->parameters()[parameter].tensor.detach());
}

void StageModel::deliver(std::size_t parameter, const at::Tensor& gradient, const LanePass& pass) {
  const at::Tensor dense = on_host(gradient);
  sink_->add(pass.unit, slot_[parameter], floats_of(dense), pass.pass, pass.passes);
}

void StageModel::deliver_zeros(std::size_t parameter, const LanePass& pass) {
  floats_.assign(static_cast<std::size_t>(model_->parameters()[parameter].tensor.numel()), 0.0f);
  sink_->add(pass.unit, slot_[parameter], floats_, pass.pass, pass.passes);
}

at::Tensor StageModel::infer(std::size_t chunk, const at::Tensor& input) {
  const at::NoGradGuard no_grad;
  models::PassContext context{
      .training = false, .random = RandomStream(0, "none"), .compute = compute_};
  return run(chunk, input, context);
}

void StageModel::add_nothing(std::int32_t unit, std::span<const float> notes) {
  const LanePass pass{.unit = unit, .random = RandomStream(0, "none")};
  write_empty_extras(floats_, *model_, notes);
  sink_->add(unit, 0, floats_, 0, 1);
  for (const std::size_t p : owned_) deliver_zeros(p, pass);
}

void StageModel::clear() {
  runs_.clear();
  postponed_.clear();
  statistics_.clear();
  partial_.clear();
}

}  // namespace muster::parallel
