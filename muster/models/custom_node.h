#pragma once
// What operations with a backward of their own have alike, beside libtorch's Function, which costs
// seconds to compile. Any thread.

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <utility>

namespace muster::models {

inline bool has_graph(const torch::Tensor& tensor) {
  return at::GradMode::is_enabled() && tensor.requires_grad();
}

// `output` as what `node` makes of `input` in the graph.
template <class Node>
torch::Tensor with_history(torch::Tensor output, const torch::Tensor& input,
                           const std::shared_ptr<Node>& node) {
  node->set_next_edges(torch::autograd::collect_next_edges(input));
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace muster::models
