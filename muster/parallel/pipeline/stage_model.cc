#include "muster/parallel/pipeline/stage_model.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "muster/base/check.h"
#include "muster/parallel/extras.h"

namespace muster::parallel {

// Called by autograd once a backward pass has the gradient of one parameter.
class StageModel::GradientHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  GradientHook(StageModel& stage, std::size_t parameter) : stage_(stage), parameter_(parameter) {}
  void operator()(const torch::autograd::Variable& variable) override {
    stage_.found(parameter_, variable.grad());
    variable.mutable_grad().reset();
  }

 private:
  StageModel& stage_;
  const std::size_t parameter_;
};

StageModel::StageModel(std::unique_ptr<models::Model> part, layout::Partition chunks,
                       models::Compute compute)
    : model_(std::move(part)), chunks_(std::move(chunks)), compute_(compute) {
  const auto& parameters = model_->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].borrowed) owned_.push_back(i);
    home_.push_back(home_of(i));
    torch::autograd::impl::set_post_acc_grad_hooks(parameters[i].tensor,
                                                   std::make_unique<GradientHook>(*this, i));
  }
  slot_.resize(parameters.size());
  for (std::size_t i = 0; i < owned_.size(); ++i)
    slot_[owned_[i]] = static_cast<std::int32_t>(owned_.size() - i);
}

StageModel::~StageModel() = default;

// The first chunk that uses it: backward comes to that one last.
std::size_t StageModel::home_of(std::size_t parameter) const {
  const at::Tensor& tensor = model_->parameters()[parameter].tensor;
  for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk)
    for (std::int32_t b = chunks_[chunk].begin; b < chunks_[chunk].end; ++b) {
      const models::Block& block = *model_->blocks()[static_cast<std::size_t>(b)].block;
      for (const auto* list : {&block.parameters(), &block.borrowed()})
        if (std::ranges::any_of(*list, [&](const auto& p) { return p.tensor.is_same(tensor); }))
          return chunk;
    }
  MUSTER_CHECK(false, "every parameter belongs to a block");
  return 0;
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
  leaf = input.detach();
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
  const auto kept = runs_.extract({chunk, micro});
  MUSTER_CHECK(!kept.empty(), "a chunk's backward follows its forward");
  Run& run = kept.mapped();
  backward_ = {chunk, micro, &pass, std::vector<bool>(slot_.size())};
  const at::Tensor seed =
      gradient.defined() ? gradient
                         : at::scalar_tensor(pass.weight * pass.loss_scale, run.output.options());
  if (run.output.requires_grad()) torch::autograd::backward({run.output}, {seed});
  for (const std::size_t p : owned_) {
    if (home_[p] != chunk || backward_.delivered[p]) continue;
    const auto others = partial_.extract({p, micro});  // this chunk did not use it
    if (others.empty())
      deliver_zeros(p, pass);
    else
      deliver(p, others.mapped(), pass);
  }
  return run.input.grad();
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
  const at::Tensor dense = gradient.contiguous();
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
  statistics_.clear();
  partial_.clear();
}

}  // namespace muster::parallel
