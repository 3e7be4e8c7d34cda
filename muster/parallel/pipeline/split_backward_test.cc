// A backward pass in two parts finds what it finds in one, and leaves the weights for the second.
#include "muster/parallel/pipeline/split_backward.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include <functional>
#include <vector>

namespace muster::parallel {
namespace {

// Counts how often gradients come by.
class Counted final : public torch::autograd::Function<Counted> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& tensor,
                            std::int64_t counter) {
    context->saved_data["counter"] = counter;
    return tensor.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    ++*reinterpret_cast<int*>(context->saved_data["counter"].toInt());
    return {gradients[0], at::Tensor()};
  }
};

at::Tensor counted(const at::Tensor& tensor, int& counter) {
  return Counted::apply(tensor, reinterpret_cast<std::int64_t>(&counter));
}

at::Tensor leaf(std::vector<std::int64_t> sizes, double phase) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return torch::sin(torch::arange(count, torch::kFloat32) * 0.7 + phase)
      .view(sizes)
      .requires_grad_(true);
}

struct Graph {
  at::Tensor input = leaf({5, 4}, 0);
  std::vector<at::Tensor> weights{leaf({6, 4}, 1), leaf({6, 6}, 2), leaf({6}, 3), leaf({4, 6}, 4)};
  int above = 0, weight = 0;

  at::Tensor run() {
    at::Tensor x = torch::relu(torch::linear(counted(input, above), counted(weights[0], weight)));
    x = x + torch::layer_norm(torch::linear(x, weights[1]), {6}, weights[2]);
    return torch::linear(x, weights[3]).tanh();
  }
};

const at::Tensor kOutputGradient = torch::cos(torch::arange(20, torch::kFloat32)).view({5, 4});

void expect_same(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(found[i].defined()) << i;
    EXPECT_TRUE(torch::equal(found[i], expected[i])) << i;
  }
}

TEST(SplitBackward, FindsWhatBackwardFindsInOnePiece) {
  Graph graph;
  const auto inputs = [&] {
    std::vector<at::Tensor> all = graph.weights;
    all.push_back(graph.input);
    return all;
  }();
  std::vector<at::Tensor> expected =
      torch::autograd::grad({graph.run()}, inputs, {kOutputGradient});
  const at::Tensor expected_input = expected.back();
  expected.pop_back();
  for (std::size_t now = 0; now <= graph.weights.size(); ++now) {
    const auto middle = graph.weights.begin() + static_cast<std::ptrdiff_t>(now);
    auto split = split_backward(graph.run(), kOutputGradient, graph.input,
                                {graph.weights.begin(), middle}, {middle, graph.weights.end()});
    EXPECT_TRUE(torch::equal(split.input, expected_input));
    const auto cut = expected.begin() + static_cast<std::ptrdiff_t>(now);
    expect_same(split.now, {expected.begin(), cut});
    expect_same(split.later.find(), {cut, expected.end()});
  }
  EXPECT_FALSE(graph.input.grad().defined()) << "nothing is added anywhere";
}

TEST(SplitBackward, LeavesTheWeightsForLater) {
  Graph graph;
  auto split = split_backward(graph.run(), kOutputGradient, graph.input, {}, graph.weights);
  EXPECT_EQ(graph.above, 1);
  EXPECT_EQ(graph.weight, 0);
  (void)split.later.find();
  EXPECT_EQ(graph.above, 1) << "the way to the input is not walked again";
  EXPECT_EQ(graph.weight, 1);
}

// Two uses add up where the graph says, so they are not torn apart.
TEST(SplitBackward, FindsWhatIsUsedTwiceAtOnce) {
  const at::Tensor input = leaf({5, 6}, 0), twice = leaf({6, 6}, 1), once = leaf({6, 6}, 2);
  int weight = 0;
  const auto run = [&] {
    const at::Tensor x = torch::linear(torch::linear(input, counted(twice, weight)), once);
    return torch::linear(x.tanh(), counted(twice, weight));
  };
  const at::Tensor seed = torch::ones({5, 6});
  const auto expected = torch::autograd::grad({run()}, {twice, once}, {seed});
  weight = 0;
  auto split = split_backward(run(), seed, input, {}, {twice, once});
  EXPECT_EQ(weight, 2);
  expect_same(split.later.find(), expected);
}

TEST(SplitBackward, SaysWhatWasNotUsed) {
  const at::Tensor input = leaf({2, 3}, 0), used = leaf({3, 3}, 1), unused = leaf({3}, 2);
  const auto run = [&] { return torch::linear(input, used); };
  auto split = split_backward(run(), torch::ones({2, 3}), input, {unused}, {unused, used});
  EXPECT_FALSE(split.now.front().defined());
  const auto later = split.later.find();
  EXPECT_FALSE(later[0].defined());
  EXPECT_TRUE(later[1].defined());
}

}  // namespace
}  // namespace muster::parallel
