#include "muster/models/layers.h"

#include <cmath>

#include "muster/base/norm_groups.h"
#include "muster/models/dropout.h"
#include "muster/models/norm_relu.h"
#include "muster/models/positions.h"
#include "muster/models/precision.h"
#include "muster/models/sync_batch_norm.h"
#include "muster/models/tensor_ops.h"

namespace muster::models {
namespace {

constexpr double kNormEpsilon = 1e-5;  // PyTorch's default for both norms

// Where a tensor of channels, or of a width, is cut.
struct Cuts {
  Split split = Split::kNone;
  std::int64_t units = 0;
};

torch::Tensor add_scale(Block& owner, const std::string& name, std::int64_t width, Cuts cuts = {}) {
  return owner.add_parameter({.name = name + ".weight",
                              .init = {InitKind::kOnes},
                              .split = cuts.split,
                              .split_units = cuts.units,
                              .decays = false},
                             {width});
}

// `bias`: its name and how it is cut.
torch::Tensor add_bias(Block& owner, BlockParameter bias, std::int64_t width) {
  bias.init = {InitKind::kZeros};
  bias.decays = false;
  return owner.add_parameter(std::move(bias), {width});
}
torch::Tensor add_bias(Block& owner, const std::string& name, std::int64_t width, Cuts cuts = {}) {
  return add_bias(owner, {.name = name + ".bias", .split = cuts.split, .split_units = cuts.units},
                  width);
}

// All of them, or this rank's.
Cuts cuts_of(NormKind kind, std::int64_t channels, Split split) {
  return {split, split == Split::kNone ? 0 : channel_units(kind, channels)};
}

// A new tensor is given up for it.
torch::Tensor added_relu(const torch::Tensor& normalised, const torch::Tensor& skip) {
  if (skip.defined()) normalised.add_(skip);
  return normalised.relu_();
}

}  // namespace

Linear::Linear(Block& owner, const std::string& name, const LinearOptions& options)
    : weight_(owner.add_parameter({.name = name + ".weight",
                                   .init = options.init,
                                   .split = options.split,
                                   .split_units = options.split_units,
                                   .stacked = options.stacked,
                                   .expert = options.expert,
                                   .products_only = true},
                                  {options.out, options.in})),
      row_(options.split == Split::kRow),
      adapter_(owner.add_layer(name)) {
  if (!options.bias) return;
  // The bias of a row-split layer is added once, after the sum over ranks: every rank holds it.
  const bool column = options.split == Split::kColumn;
  bias_ = add_bias(owner,
                   {.name = name + ".bias",
                    .split = column ? Split::kColumn : Split::kNone,
                    .split_units = column ? options.split_units : 0,
                    .stacked = column ? options.stacked : 1,
                    .expert = options.expert,
                    .products_only = true},
                   options.out);
}

torch::Tensor Linear::operator()(const torch::Tensor& input, const PassContext& context) const {
  const auto adapted = [&](const torch::Tensor& output) {
    return adapter_->attached() ? output + (*adapter_)(input, context) : output;
  };
  if (row_ && context.group != nullptr) {
    const auto sum = leave_cut(adapted(torch::linear(input, weight_)), context.group);
    return bias_.defined() ? sum + bias_.to(sum.scalar_type()) : sum;
  }
  return adapted(torch::linear(input, weight_, bias_));
}

Convolution::Convolution(Block& owner, const std::string& name, const ConvolutionOptions& options)
    : weight_(owner.add_parameter({.name = name + ".weight",
                                   .init = {InitKind::kKaiming, std::sqrt(2.0)},
                                   .split = options.split,
                                   .split_units = options.split_units,
                                   .products_only = true},
                                  {options.out, options.in, options.kernel, options.kernel})),
      stride_(options.stride),
      padding_(options.kernel / 2) {}

// oneDNN (3.10) writes beyond its memory in the backward pass of a strided 1×1 convolution with
// fewer input channels than a vector has, 8 with AVX2, 16 with AVX-512; the same pixels without a
// stride are well.
torch::Tensor Convolution::operator()(const torch::Tensor& input) const {
  constexpr std::int64_t kVector = 16;
  const bool one_by_one = weight_.size(2) == 1 && weight_.size(3) == 1;
  if (one_by_one && stride_ > 1 && weight_.size(1) < kVector) {
    const auto every = [this](const torch::Tensor& tensor, std::int64_t dimension) {
      return tensor.slice(dimension, 0, std::nullopt, stride_);
    };
    return torch::conv2d(every(every(input, 2), 3), weight_);
  }
  return torch::conv2d(input, weight_, {}, stride_, padding_);
}

BatchNorm::BatchNorm(Block& owner, const std::string& name, std::int64_t channels, Split split)
    : weight_(add_scale(owner, name, channels, {split})),
      bias_(add_bias(owner, name, channels, {split})),
      running_mean_(owner.add_statistic(name + ".running_mean", channels, 0, split)),
      running_variance_(owner.add_statistic(name + ".running_var", channels, 1, split)) {
  owner.add_batch_norm();
}

void BatchNorm::report(torch::Tensor mean, torch::Tensor variance, PassContext& context) {
  if (context.statistics == nullptr) return;
  context.statistics->push_back(std::move(mean));
  context.statistics->push_back(std::move(variance));
}

torch::Tensor BatchNorm::operator()(const torch::Tensor& input, PassContext& context) const {
  if (!context.training)
    return torch::batch_norm(input, weight_, bias_, running_mean_, running_variance_, false, 0.1,
                             kNormEpsilon, true);
  if (context.batch != nullptr) return over_batch(input, context);
  // Momentum 1 makes the kernel write the slice's own mean and unbiased variance.
  auto mean = torch::zeros_like(running_mean_);
  auto variance = torch::zeros_like(running_variance_);
  auto output =
      torch::batch_norm(input, weight_, bias_, mean, variance, true, 1.0, kNormEpsilon, true);
  report(std::move(mean), std::move(variance), context);
  return output;
}

torch::Tensor BatchNorm::over_batch(const torch::Tensor& input, PassContext& context) const {
  SyncNormed found = sync_batch_norm(
      {.input = input, .weight = weight_, .bias = bias_, .epsilon = kNormEpsilon}, *context.batch);
  const auto type = running_mean_.scalar_type();
  report(found.mean.to(type), found.variance.to(type), context);
  return found.output;
}

torch::Tensor BatchNorm::relu(const torch::Tensor& input, const torch::Tensor& skip,
                              PassContext& context) const {
  const NormRelu fused{.input = input,
                       .weight = weight_,
                       .bias = bias_,
                       .skip = skip,
                       .epsilon = kNormEpsilon,
                       .mean = torch::empty_like(running_mean_),
                       .variance = torch::empty_like(running_variance_)};
  if (!context.training || context.batch != nullptr || !can_fuse(fused))
    return added_relu((*this)(input, context), skip);
  auto output = norm_relu(fused);
  report(fused.mean, fused.variance, context);
  return output;
}

GroupNorm::GroupNorm(Block& owner, const std::string& name, std::int64_t channels, Split split)
    : weight_(add_scale(owner, name, channels, cuts_of(NormKind::kGroup, channels, split))),
      bias_(add_bias(owner, name, channels, cuts_of(NormKind::kGroup, channels, split))),
      channels_of_group_(channels / norm_groups(channels)) {}

torch::Tensor GroupNorm::operator()(const torch::Tensor& input) const {
  const std::int64_t groups = weight_.size(0) / channels_of_group_;
  return torch::group_norm(widened(input), groups, weight_, bias_, kNormEpsilon);
}

std::int64_t channel_units(NormKind kind, std::int64_t channels) noexcept {
  return kind == NormKind::kGroup ? norm_groups(channels) : 0;
}

ImageNorm::ImageNorm(Block& owner, const std::string& name, std::int64_t channels, NormKind kind,
                     Split split) {
  if (kind == NormKind::kBatch) batch_.emplace(owner, name, channels, split);
  if (kind == NormKind::kGroup) group_.emplace(owner, name, channels, split);
  if (kind == NormKind::kNone) bias_ = add_bias(owner, name, channels, {split});
}

torch::Tensor ImageNorm::operator()(const torch::Tensor& input, PassContext& context) const {
  if (batch_) return (*batch_)(input, context);
  if (group_) return (*group_)(input);
  return input + bias_.view({1, -1, 1, 1});
}

torch::Tensor ImageNorm::relu(const torch::Tensor& input, const torch::Tensor& skip,
                              PassContext& context) const {
  if (batch_) return batch_->relu(input, skip, context);
  return added_relu((*this)(input, context), skip);
}

LayerNorm::LayerNorm(Block& owner, const std::string& name, std::int64_t width)
    : weight_(add_scale(owner, name, width)), bias_(add_bias(owner, name, width)) {}

torch::Tensor LayerNorm::operator()(const torch::Tensor& input) const {
  return torch::layer_norm(widened(input), {weight_.size(0)}, weight_, bias_, kNormEpsilon);
}

RmsNorm::RmsNorm(Block& owner, const std::string& name, std::int64_t width, double epsilon)
    : weight_(add_scale(owner, name, width)), epsilon_(epsilon) {}

torch::Tensor RmsNorm::operator()(const torch::Tensor& input) const {
  return at::rms_norm(widened(input), {weight_.size(0)}, weight_, epsilon_);
}

torch::Tensor Dropout::operator()(const torch::Tensor& input, const PassContext& context) const {
  if (!context.training || probability_ == 0) return input;
  return dropout(input, probability_, context.random.fork(name_));
}

torch::Tensor Dropout::of_part(const torch::Tensor& input, const AxisPart& part,
                               const PassContext& context) const {
  if (!context.training) return input;
  return dropout(input, part, probability_, context.random.fork(name_));
}

torch::Tensor Dropout::of_positions(const torch::Tensor& input, const PassContext& context) const {
  return of_part(input, positions_between_layers(input.size(1), context), context);
}

}  // namespace muster::models
