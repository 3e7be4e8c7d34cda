#include "muster/app/worker/pass_times.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "muster/app/worker/build_model.h"
#include "muster/base/median.h"
#include "muster/parallel/gradient_hook.h"
#include "muster/parallel/lanes.h"

namespace muster::app {
namespace {

constexpr std::size_t kTimedRounds = 7;  // of which the median counts, after one that does not

using Times = std::vector<std::vector<Duration>>;  // by block and round

class TimedPass {
 public:
  TimedPass(models::Model& model, const parallel::Examples& examples, const job::JobSpec& job)
      : model_(model), examples_(examples), job_(job), forward_(count()), backward_(count()) {
    for (const models::Parameter& parameter : model_.parameters()) {
      const at::Tensor sum = at::zeros_like(parameter.tensor.detach());
      parallel::when_gradient_is_found(
          parameter.tensor, [sum](const at::Tensor& gradient) { at::Tensor(sum).add_(gradient); });
    }
  }

  void run() {
    inputs_.clear();
    outputs_.clear();
    statistics_.clear();
    run_forward();
    run_backward();
  }
  void forget_times() {
    for (auto* times : {&forward_, &backward_})
      for (auto& of_block : *times) of_block.clear();
  }
  const Times& forward() const noexcept { return forward_; }
  const Times& backward() const noexcept { return backward_; }

 private:
  std::size_t count() const { return model_.blocks().size(); }

  void run_forward() {
    at::Tensor input = examples_.inputs;
    for (std::size_t b = 0; b < count(); ++b) {
      const TimePoint began = system_clock().now();
      inputs_.push_back(handed_on(input));
      models::PassContext context = pass_to_measure(job_, statistics_);
      input = model_.forward_block(b, inputs_.back(), context);
      outputs_.push_back(input);
      if (b + 1 == count()) outputs_.back() = model_.loss_sum(input, examples_.targets).sum;
      forward_[b].push_back(system_clock().now() - began);
    }
  }

  // From block to block, as far as anything is trained.
  void run_backward() {
    at::Tensor gradient = at::ones_like(outputs_.back());
    for (std::size_t b = count(); b-- > 0;) {
      const TimePoint began = system_clock().now();
      const at::Tensor output = std::exchange(outputs_[b], at::Tensor());
      if (gradient.defined() && output.requires_grad())
        torch::autograd::backward({output}, {gradient});
      gradient = inputs_[b].grad();
      inputs_[b].reset();
      backward_[b].push_back(system_clock().now() - began);
    }
  }

  models::Model& model_;
  const parallel::Examples& examples_;
  const job::JobSpec& job_;
  std::vector<at::Tensor> inputs_, outputs_, statistics_;
  Times forward_, backward_;
};

// Further ones, for lanes that share weights with a worker before, and for the first lanes of
// others.
std::vector<std::unique_ptr<models::Model>> copies_of(const models::Model& model,
                                                      std::int32_t lanes, std::int32_t workers) {
  std::vector<std::unique_ptr<models::Model>> copies;
  for (std::int32_t lane = 1; lane < lanes; ++lane) {
    const std::int32_t worker = lane % workers;
    const bool is_first = worker == lane;
    const models::Model& other =
        worker == 0 || is_first ? model : *copies[static_cast<std::size_t>(worker - 1)];
    copies.push_back(other.replicate());
    if (!is_first) continue;
    for (const models::Parameter& parameter : copies.back()->parameters())
      at::Tensor(parameter.tensor).set_data(parameter.tensor.detach().clone());
  }
  return copies;
}

}  // namespace

at::Tensor handed_on(const at::Tensor& output) {
  at::Tensor input = output.detach();
  return input.set_requires_grad(output.requires_grad());
}

models::PassContext pass_to_measure(const job::JobSpec& job, std::vector<at::Tensor>& statistics) {
  return {.training = true,
          .random = RandomStream(job.seed, "costs"),
          .statistics = &statistics,
          .compute = compute_of(job.training)};
}

std::uint64_t bytes_to_time(const models::Model& model, const std::vector<plan::BlockPass>& blocks,
                            const AtOnce& at_once) {
  std::uint64_t weights = 0, activations = 0, most = 0;
  for (const models::Parameter& parameter : model.parameters())
    weights += parameter.tensor.nbytes();
  for (const plan::BlockPass& block : blocks) {
    activations += block.activation_bytes;
    most = std::max(most, block.backward_bytes);
  }
  const auto passes = static_cast<std::uint64_t>(at_once.passes);
  const auto copies = static_cast<std::uint64_t>(at_once.workers - 1);
  return copies * weights + passes * (2 * weights + activations + most);  // gradients and sums
}

Status time_passes(models::Model& model, const parallel::Examples& examples,
                   const job::JobSpec& job, const AtOnce& at_once,
                   std::vector<plan::BlockPass>& blocks) {
  parallel::LanePool lanes(model.expert_parameters().empty() ? at_once.passes : 1);
  const auto copies = copies_of(model, lanes.size(), at_once.workers);
  std::vector<TimedPass> passes;
  passes.emplace_back(model, examples, job);
  for (const auto& copy : copies) passes.emplace_back(*copy, examples, job);
  MUSTER_TRY(lanes.run([&passes](std::int32_t lane) {
    TimedPass& pass = passes[static_cast<std::size_t>(lane)];
    pass.run();
    pass.forget_times();
    for (std::size_t round = 0; round < kTimedRounds; ++round) pass.run();
    return ok();
  }));
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    std::vector<Duration> forward, backward;
    for (const TimedPass& pass : passes) {
      forward.insert(forward.end(), pass.forward()[b].begin(), pass.forward()[b].end());
      backward.insert(backward.end(), pass.backward()[b].begin(), pass.backward()[b].end());
    }
    blocks[b].forward = median(std::move(forward));
    blocks[b].backward = median(std::move(backward));
  }
  return ok();
}

}  // namespace muster::app
