#include "muster/parallel/pipeline/split_backward.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace muster::parallel {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;
using torch::autograd::impl::gradient_edge;

// All nodes that gradients get to from `root`, each behind those that it hands gradients to.
std::vector<Node*> nodes_from(Node* root) {
  std::vector<Node*> order;
  std::unordered_set<Node*> seen{root};
  std::vector<std::pair<Node*, std::size_t>> path{{root, 0}};
  while (!path.empty()) {
    auto& [node, next] = path.back();
    if (next == node->num_outputs()) {
      order.push_back(node);
      path.pop_back();
      continue;
    }
    Node* below = node->next_edge(next++).function.get();
    if (below != nullptr && seen.insert(below).second) path.emplace_back(below, 0);
  }
  return order;
}

// Where in a graph the gradients of weights part from those that go on to the input.
class Branches {
 public:
  Branches(const at::Tensor& output, const at::Tensor& input,
           const std::vector<at::Tensor>& parameters) {
    for (std::size_t p = 0; p < parameters.size(); ++p)
      reached_[gradient_edge(parameters[p]).function.get()].insert(p);
    on_the_way_.insert(gradient_edge(input).function.get());
    for (Node* node : nodes_from(output.grad_fn().get())) visit(*node);
  }

  // By node: parameters that are used there and nowhere else.
  std::unordered_map<Node*, std::vector<std::size_t>> exclusive() const {
    std::unordered_map<Node*, std::vector<std::size_t>> nodes;
    for (const auto& [parameter, users] : users_)
      if (users.size() == 1) nodes[*users.begin()].push_back(parameter);
    return nodes;
  }

 private:
  void visit(Node& node) {
    std::set<std::size_t> beside;  // parameters that it leads to on ways without the input
    bool leads_to_input = on_the_way_.contains(&node);
    for (const Edge& edge : node.next_edges()) {
      if (on_the_way_.contains(edge.function.get()))
        leads_to_input = true;
      else if (const auto found = reached_.find(edge.function.get()); found != reached_.end())
        beside.insert(found->second.begin(), found->second.end());
    }
    if (leads_to_input) {
      on_the_way_.insert(&node);
      for (const std::size_t parameter : beside) users_[parameter].insert(&node);
    } else {
      reached_[&node].merge(beside);
    }
  }

  std::unordered_set<Node*> on_the_way_;  // to the input
  std::unordered_map<Node*, std::set<std::size_t>> reached_;
  std::unordered_map<std::size_t, std::set<Node*>> users_;  // by parameter
};

variable_list gradients_of(const edge_list& wanted, const edge_list& from,
                           const variable_list& values, bool again) {
  return torch::autograd::Engine::get_default_engine().execute(from, values, /*keep_graph=*/again,
                                                               /*create_graph=*/false,
                                                               /*accumulate_grad=*/false, wanted);
}

}  // namespace

SplitBackward split_backward(const at::Tensor& output, const at::Tensor& seed,
                             const at::Tensor& input, const std::vector<at::Tensor>& now,
                             const std::vector<at::Tensor>& later) {
  SplitBackward split;
  PostponedGradients& postponed = split.later;
  postponed.parameters_ = later;
  postponed.found_.resize(later.size());
  edge_list wanted{gradient_edge(input)};
  for (const at::Tensor& parameter : now) wanted.push_back(gradient_edge(parameter));

  std::vector<bool> waits(later.size());
  for (auto& [node, parameters] : Branches(output, input, later).exclusive()) {
    PostponedGradients::Branch branch{node->getptr(), std::move(parameters), {}, {}};
    for (std::uint32_t i = 0; i < node->num_inputs(); ++i)
      branch.arriving.emplace_back(branch.node, i);
    wanted.insert(wanted.end(), branch.arriving.begin(), branch.arriving.end());
    for (const std::size_t p : branch.parameters) waits[p] = true;
    postponed.branches_.push_back(std::move(branch));
  }
  std::vector<std::size_t> at_once;  // of `later`
  for (std::size_t p = 0; p < later.size(); ++p) {
    if (waits[p]) continue;
    at_once.push_back(p);
    wanted.push_back(gradient_edge(later[p]));
  }

  const variable_list found = gradients_of(wanted, {gradient_edge(output)}, {seed}, true);
  auto next = found.begin();
  split.input = *next++;
  for (std::size_t i = 0; i < now.size(); ++i) split.now.push_back(*next++);
  for (auto& branch : postponed.branches_) {
    branch.gradients.assign(next, next + static_cast<std::ptrdiff_t>(branch.arriving.size()));
    next += static_cast<std::ptrdiff_t>(branch.arriving.size());
  }
  for (const std::size_t p : at_once) postponed.found_[p] = *next++;
  return split;
}

std::vector<at::Tensor> PostponedGradients::find() {
  for (Branch& branch : branches_) {
    edge_list from;
    variable_list values;
    for (std::size_t i = 0; i < branch.arriving.size(); ++i) {
      if (!branch.gradients[i].defined()) continue;
      from.push_back(branch.arriving[i]);
      values.push_back(branch.gradients[i]);
    }
    if (from.empty()) continue;
    edge_list wanted;
    for (const std::size_t p : branch.parameters) wanted.push_back(gradient_edge(parameters_[p]));
    variable_list found = gradients_of(wanted, from, values, false);
    for (std::size_t i = 0; i < found.size(); ++i)
      found_[branch.parameters[i]] = std::move(found[i]);
  }
  branches_.clear();
  return std::move(found_);
}

}  // namespace muster::parallel
