#pragma once
// The layers that the shipped blocks are made of: plain values that register their parameters with
// the block they belong to and apply one libtorch operation. The matrices and biases of linear
// layers, and the kernels of convolutions, are for that alone (BlockParameter::products_only): a
// block that sums up their squares, say, may see rounded ones. Thread rule: that of the block.

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "muster/models/adapter.h"
#include "muster/models/block.h"

namespace muster::models {

// y = x · weightᵀ + bias, and what an adapter adds; weight [out, in], bias [out]. Where the model
// is cut over ranks (Model::split): with Split::kColumn x is whole, has gone through enter_cut(),
// and y is this rank's part of the outputs; with kRow x is a part, and y what leave_cut() makes.
struct LinearOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  Init init = {};
  Split split = Split::kNone;
  std::int64_t split_units = 0;
  std::int64_t stacked = 1;  // TensorPartition::stacked
  bool bias = true;
  std::int64_t expert = -1;  // TensorPartition::expert
};

class Linear {
 public:
  Linear(Block& owner, const std::string& name, const LinearOptions& options);
  torch::Tensor operator()(const torch::Tensor& input, const PassContext& context) const;

 private:
  torch::Tensor weight_;
  torch::Tensor bias_;  // undefined: none
  bool row_;
  std::shared_ptr<const Adapter> adapter_;
};

// Square kernel, no bias (a norm follows), padding that keeps the extent at stride 1. Where the
// model is cut over ranks: with Split::kColumn the input is whole, has gone through
// copy_to_ranks(), and the output is of this rank's channels; with kRow the input is of this rank's
// channels, and of the output sum_over_ranks() is still to be made.
struct ConvolutionOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  Split split = Split::kNone;
  std::int64_t split_units = 0;
};

class Convolution {
 public:
  Convolution(Block& owner, const std::string& name, const ConvolutionOptions& options);
  torch::Tensor operator()(const torch::Tensor& input) const;

 private:
  torch::Tensor weight_;  // [out, in, kernel, kernel]
  std::int64_t stride_;
  std::int64_t padding_;
};

// Ioffe and Szegedy 2015 over [n, channels, height, width]. Training: normalises by the slice's own
// statistics and reports them (PassContext::statistics), or by those of the whole batch
// (PassContext::batch); evaluation: by the running ones.
// Statistics and sums are f32 also where the images are of 16 bits, which stay so. Of each channel
// by itself: with Split::kColumn, as all norms of images, it is one of the channels that are here.
class BatchNorm {
 public:
  BatchNorm(Block& owner, const std::string& name, std::int64_t channels,
            Split split = Split::kNone);
  torch::Tensor operator()(const torch::Tensor& input, PassContext& context) const;
  // relu(norm(input) + skip); `skip` undefined: nothing is added.
  torch::Tensor relu(const torch::Tensor& input, const torch::Tensor& skip,
                     PassContext& context) const;

 private:
  static void report(torch::Tensor mean, torch::Tensor variance, PassContext& context);
  torch::Tensor over_batch(const torch::Tensor& input, PassContext& context) const;

  torch::Tensor weight_;
  torch::Tensor bias_;
  torch::Tensor running_mean_;
  torch::Tensor running_variance_;
};

// Wu and He 2018 over [n, channels, height, width]: statistics of one sample, so the same in
// training and evaluation and at any slice size. In norm_groups() groups, of which ranks have whole
// ones.
class GroupNorm {
 public:
  GroupNorm(Block& owner, const std::string& name, std::int64_t channels,
            Split split = Split::kNone);
  torch::Tensor operator()(const torch::Tensor& input) const;

 private:
  torch::Tensor weight_;
  torch::Tensor bias_;
  std::int64_t channels_of_group_;
};

// What follows a convolution, by kind. kNone is the bias that the convolution then needs.
enum class NormKind : std::uint8_t { kBatch, kGroup, kNone };

// TensorPartition::units of channels that are normalised so.
std::int64_t channel_units(NormKind kind, std::int64_t channels) noexcept;

class ImageNorm {
 public:
  ImageNorm(Block& owner, const std::string& name, std::int64_t channels, NormKind kind,
            Split split = Split::kNone);
  torch::Tensor operator()(const torch::Tensor& input, PassContext& context) const;
  torch::Tensor relu(const torch::Tensor& input, const torch::Tensor& skip,
                     PassContext& context) const;  // as BatchNorm's

 private:
  std::optional<BatchNorm> batch_;
  std::optional<GroupNorm> group_;
  torch::Tensor bias_;
};

// Ba et al. 2016 over the last axis.
class LayerNorm {
 public:
  LayerNorm(Block& owner, const std::string& name, std::int64_t width);
  torch::Tensor operator()(const torch::Tensor& input) const;

 private:
  torch::Tensor weight_;
  torch::Tensor bias_;
};

// Zhang and Sennrich 2019 over the last axis: x / sqrt(mean(x²) + epsilon) · weight.
class RmsNorm {
 public:
  RmsNorm(Block& owner, const std::string& name, std::int64_t width, double epsilon);
  torch::Tensor operator()(const torch::Tensor& input) const;

 private:
  torch::Tensor weight_;
  double epsilon_;
};

// Keyed dropout (dropout.h) of one place in one block.
class Dropout {
 public:
  Dropout(std::string name, double probability)
      : name_(std::move(name)), probability_(probability) {}
  torch::Tensor operator()(const torch::Tensor& input, const PassContext& context) const;
  // Of a tensor that is cut along axis 1, of which this rank has `part`: as the whole would be
  // dropped.
  torch::Tensor of_part(const torch::Tensor& input, const AxisPart& part,
                        const PassContext& context) const;
  // Of [n, positions here, …]; see positions_between_layers().
  torch::Tensor of_positions(const torch::Tensor& input, const PassContext& context) const;

 private:
  std::string name_;
  double probability_;
};

}  // namespace muster::models
