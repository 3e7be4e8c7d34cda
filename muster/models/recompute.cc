#include "muster/models/recompute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <utility>
#include <vector>

#include "muster/models/precision.h"

namespace muster::models {
namespace {

using torch::autograd::variable_list;

// The same values, at the beginning of a graph of their own.
torch::Tensor leaf_of(const torch::Tensor& tensor) {
  return tensor.detach().requires_grad_(tensor.requires_grad());
}

// In backward, where the block's own graph would be.
class Recomputation final : public torch::autograd::Node {
 public:
  Recomputation(std::shared_ptr<Block> block, const torch::Tensor& input, PassContext context)
      : block_(std::move(block)), context_(std::move(context)), input_(input, false) {
    context_.statistics = nullptr;  // the first run has reported them
    set_next_edges(torch::autograd::collect_next_edges(inputs_of(input)));
  }

  std::string name() const override { return "Recomputation"; }
  void release_variables() override { input_.reset_data(); }

 private:
  variable_list apply(variable_list&& gradients) override {
    const at::AutoGradMode with_graph(true);
    const torch::Tensor input = leaf_of(input_.unpack());
    PassContext context = context_;
    const torch::Tensor output = run_block(*block_, input, context);
    return gradients_of(output, inputs_of(input), gradients.front());
  }

  // What the output follows from.
  variable_list inputs_of(const torch::Tensor& input) const {
    variable_list inputs{input};
    for (const auto* list : {&block_->parameters(), &block_->borrowed()})
      for (const BlockParameter& parameter : *list) inputs.push_back(parameter.tensor);
    return inputs;
  }

  // One for each input; undefined where it wants none.
  variable_list gradients_of(const torch::Tensor& output, const variable_list& inputs,
                             const torch::Tensor& gradient) const {
    variable_list wanted;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (task_should_compute_output(i)) wanted.push_back(inputs[i]);
    const variable_list found = torch::autograd::grad({output}, wanted, {gradient}, std::nullopt,
                                                      false, /*allow_unused=*/true);
    variable_list gradients(inputs.size());
    for (std::size_t i = 0, next = 0; i < inputs.size(); ++i)
      if (task_should_compute_output(i)) gradients[i] = found[next++];
    return gradients;
  }

  const std::shared_ptr<Block> block_;
  PassContext context_;
  torch::autograd::SavedVariable input_;
};

}  // namespace

torch::Tensor run_block(Block& block, torch::Tensor input, PassContext& context) {
  const Autocast cast(context.compute.precision, input.device().type());
  return block.forward(std::move(input), context);
}

torch::Tensor run_recomputed(const std::shared_ptr<Block>& block, const torch::Tensor& input,
                             PassContext& context) {
  if (!at::GradMode::is_enabled()) return run_block(*block, input, context);
  torch::Tensor once = run_block(*block, leaf_of(input), context);
  if (!once.requires_grad()) return once;
  torch::Tensor output = once.variable_data();
  torch::autograd::set_history(output, std::make_shared<Recomputation>(block, input, context));
  return output;
}

}  // namespace muster::models
