#include "muster/models/sync_batch_norm.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <utility>
#include <vector>

namespace muster::models {
namespace {

using torch::Tensor;
using torch::autograd::variable_list;

// Sums are f64: there the square of an f32 is exact, and what the difference of two sums loses of a
// variance far below the mean's square is less than the inputs had lost by being f32. So sums of
// plain moments do, which can be added along any tree; no slice needs another's mean first.
Tensor wide(const Tensor& tensor) { return tensor.to(torch::kFloat64); }

// All axes but that of the channels.
Tensor by_channel(const Tensor& tensor) {
  std::vector<std::int64_t> axes{0};
  for (std::int64_t axis = 2; axis < tensor.dim(); ++axis) axes.push_back(axis);
  return tensor.sum(axes);
}

// [channels] as a factor of `like`, in f32 at least.
Tensor along_channels(const Tensor& of_channel, const Tensor& like) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(like.dim()), 1);
  sizes[1] = of_channel.numel();
  const auto type = like.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  return of_channel.to(type).view(sizes);
}

// a · scale + offset, by channel, in the type and memory format of `a`.
Tensor scaled(const Tensor& a, const Tensor& scale, const Tensor& offset) {
  return (a * along_channels(scale, a)).add_(along_channels(offset, a)).to(a.scalar_type());
}

// Of the whole batch.
struct Statistics {
  double count = 0;  // of values of a channel
  Tensor mean;       // f64 [channels], as the rest
  Tensor variance;   // biased
};

Statistics meet(const Tensor& input, const BatchGroup& group) {
  const Tensor x = wide(input);
  const std::int64_t channels = x.size(1);
  const auto here = static_cast<double>(x.numel() / channels);
  const Tensor total =
      group.sum(torch::cat({torch::full({1}, here, x.options()), by_channel(x), by_channel(x * x)}),
                "moments of a batch norm");
  const auto count = total[0].item<double>();
  const Tensor mean = total.narrow(0, 1, channels) / count;
  const Tensor square = total.narrow(0, 1 + channels, channels) / count;
  // Below zero by rounding only; NaN stays.
  return {count, mean, (square - mean * mean).clamp_min(0)};
}

class SyncNormBack final : public torch::autograd::Node {
 public:
  SyncNormBack(const SyncNorm& of, Statistics statistics, Tensor inverse, const BatchGroup& group)
      : input_(of.input, false),
        weight_(of.weight, false),
        statistics_(std::move(statistics)),
        inverse_(std::move(inverse)),
        group_(group) {}

  std::string name() const override { return "SyncNormBack"; }
  void release_variables() override {
    input_.reset_data();
    weight_.reset_data();
  }

 private:
  // Who wants the gradient of the input is alike in all slices, so they meet or none does.
  variable_list apply(variable_list&& gradients) override {
    const Tensor input = input_.unpack(), weight = weight_.unpack(), x = wide(input);
    const Tensor& d_output = gradients.front();
    const Tensor dy = d_output.defined() ? wide(d_output) : torch::zeros_like(x);
    const Tensor sum = by_channel(dy);
    const Tensor product = by_channel(dy * (x - along_channels(statistics_.mean, x)));
    const auto as_weight = [&](const Tensor& tensor) { return tensor.to(weight.scalar_type()); };
    variable_list found{Tensor(), as_weight(product * inverse_), as_weight(sum)};
    if (task_should_compute_output(0))
      found.front() = gradient_of_input(x, wide(weight), dy, torch::cat({sum, product}))
                          .to(input.scalar_type());
    return found;
  }

  // dx = scale · (dy - Σdy / n - (x - mean) / σ² · Σ(dy · (x - mean)) / n), sums over the batch.
  Tensor gradient_of_input(const Tensor& x, const Tensor& weight, const Tensor& dy,
                           const Tensor& sums) const {
    const Tensor total = group_.sum(sums, "gradients of a batch norm");
    const std::int64_t channels = weight.numel();
    const Tensor scale = weight * inverse_;
    const Tensor slope =
        scale * inverse_ * inverse_ * total.narrow(0, channels, channels) / -statistics_.count;
    const Tensor offset =
        scale * total.narrow(0, 0, channels) / -statistics_.count - slope * statistics_.mean;
    return scaled(dy, scale, offset).add_(x * along_channels(slope, x));
  }

  torch::autograd::SavedVariable input_, weight_;
  const Statistics statistics_;
  const Tensor inverse_;  // 1 / the standard deviation
  const BatchGroup& group_;
};

}  // namespace

SyncNormed sync_batch_norm(const SyncNorm& of, const BatchGroup& group) {
  SyncNormed found;
  Statistics statistics;
  Tensor inverse;
  {
    const at::NoGradGuard no_graph;
    statistics = meet(of.input, group);
    inverse = (statistics.variance + of.epsilon).rsqrt();
    const Tensor scale = wide(of.weight) * inverse;
    found.output = scaled(of.input, scale, wide(of.bias) - statistics.mean * scale);
    found.mean = statistics.mean;
    // Of a single value there is no unbiased one.
    const double others = statistics.count > 1 ? statistics.count - 1 : 1;
    found.variance = statistics.variance * (statistics.count / others);
  }
  const auto wants = [](const Tensor& tensor) { return tensor.requires_grad(); };
  if (!at::GradMode::is_enabled() || !(wants(of.input) || wants(of.weight) || wants(of.bias)))
    return found;
  const auto node = std::make_shared<SyncNormBack>(of, std::move(statistics), inverse, group);
  node->set_next_edges(torch::autograd::collect_next_edges(of.input, of.weight, of.bias));
  torch::autograd::set_history(found.output, node);
  return found;
}

}  // namespace muster::models
