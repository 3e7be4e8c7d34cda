#pragma once
// A backward pass in two parts, as zero-bubble pipelines want it (Qi et al., ICLR 2024): first the
// gradient of the input, for which another stage waits, then those of the weights, for which nobody
// waits before the step's end. Whatever the graph is made of: the first part walks the ways from
// the output to the input and keeps the gradients that arrive where weights branch off; the second
// one goes from there to the weights. The same operations on the same values as in one piece.
// One thread.

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace muster::parallel {

struct SplitBackward;

// What is left to do. Holds the graph, and with it the activations.
class PostponedGradients {
 public:
  // Of the parameters that were postponed, in their order; undefined: not used. Once.
  std::vector<at::Tensor> find();

 private:
  friend SplitBackward split_backward(const at::Tensor& output, const at::Tensor& seed,
                                      const at::Tensor& input, const std::vector<at::Tensor>& now,
                                      const std::vector<at::Tensor>& later);
  struct Branch {  // where weights branch off from the ways to the input
    std::shared_ptr<torch::autograd::Node> node;
    std::vector<std::size_t> parameters;          // of those postponed
    std::vector<torch::autograd::Edge> arriving;  // what the node gets, and
    std::vector<at::Tensor> gradients;            // the values of it
  };
  std::vector<Branch> branches_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> found_;  // already, by parameter: those that could not be postponed
};

struct SplitBackward {
  at::Tensor input;             // its gradient; undefined: the output does not follow from it
  std::vector<at::Tensor> now;  // those of the parameters `now`; undefined: not used
  PostponedGradients later;     // of the parameters `later`
};

// `output` has a graph in which `input` and the parameters are leaves; `seed`: the gradient of
// `output`. A parameter of `later` that is used in several places, whose gradients add up, is not
// postponed but found now and handed out later.
SplitBackward split_backward(const at::Tensor& output, const at::Tensor& seed,
                             const at::Tensor& input, const std::vector<at::Tensor>& now,
                             const std::vector<at::Tensor>& later);

}  // namespace muster::parallel
