#include "muster/models/resnet.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <optional>

#include "muster/models/layers.h"
#include "muster/models/tensor_ops.h"

namespace muster::models {
namespace {

class Stem final : public Block {
 public:
  Stem(const ResNetSpec& spec, std::int64_t out)
      : convolution_(*this, "conv", {.in = spec.input_channels, .out = out}),
        norm_(*this, "norm", out, spec.norm),
        format_(spec.channels_last ? torch::MemoryFormat::ChannelsLast
                                   : torch::MemoryFormat::Contiguous) {}

  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    // Everything after it follows this tensor's memory format.
    return norm_.relu(convolution_(input).contiguous(format_), {}, context);
  }

 private:
  Convolution convolution_;
  ImageNorm norm_;
  torch::MemoryFormat format_;
};

struct BasicOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t stride = 1;
  NormKind norm = NormKind::kBatch;
};

// Around a block: its input, through a 1×1 convolution where the extent or the channels change.
class Shortcut {
 public:
  Shortcut(Block& owner, const BasicOptions& options) {
    if (options.stride == 1 && options.in == options.out) return;
    convolution_.emplace(
        owner, "shortcut.conv",
        ConvolutionOptions{
            .in = options.in, .out = options.out, .kernel = 1, .stride = options.stride});
    norm_.emplace(owner, "shortcut.norm", options.out, options.norm);
  }

  torch::Tensor operator()(const torch::Tensor& input, PassContext& context) const {
    return convolution_ ? (*norm_)((*convolution_)(input), context) : input;
  }

 private:
  std::optional<Convolution> convolution_;
  std::optional<ImageNorm> norm_;
};

ConvolutionOptions first_of(const BasicOptions& options) {
  return {.in = options.in,
          .out = options.out,
          .stride = options.stride,
          .split = Split::kColumn,
          .split_units = channel_units(options.norm, options.out)};
}

ConvolutionOptions second_of(const BasicOptions& options) {
  return {.in = options.out,
          .out = options.out,
          .split = Split::kRow,
          .split_units = channel_units(options.norm, options.out)};
}

// The first convolution is cut along its outputs, the second along its inputs, so that ranks meet
// once a block; between them each has its channels. What is registered first also speaks first of
// its statistics: the shortcut comes before the norm that adds it.
class Basic final : public Block {
 public:
  explicit Basic(const BasicOptions& options)
      : convolution1_(*this, "conv1", first_of(options)),
        norm1_(*this, "norm1", options.out, options.norm, Split::kColumn),
        shortcut_(*this, options),
        convolution2_(*this, "conv2", second_of(options)),
        norm2_(*this, "norm2", options.out, options.norm) {}

  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    const auto shared = copy_to_ranks(input, context.group);
    const auto output = norm1_.relu(convolution1_(shared), {}, context);
    const auto skip = shortcut_(input, context);
    return norm2_.relu(sum(convolution2_(output), input, context), skip, context);
  }

 private:
  // In the memory format of the block's input, which is alike on all ranks: that of a part follows
  // from its number of channels as well, and what comes after would round differently.
  static torch::Tensor sum(const torch::Tensor& partial, const torch::Tensor& input,
                           const PassContext& context) {
    if (context.group == nullptr) return partial;
    return sum_over_ranks(partial, context.group).contiguous(input.suggest_memory_format());
  }

  Convolution convolution1_;
  ImageNorm norm1_;
  Shortcut shortcut_;
  Convolution convolution2_;
  ImageNorm norm2_;
};

class ResNetHead final : public Block {
 public:
  ResNetHead(std::int64_t in, std::int64_t classes, double dropout)
      : linear_(*this, "linear", {.in = in, .out = classes, .init = {InitKind::kKaiming}}),
        dropout_("dropout", dropout) {}

  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    return linear_(dropout_(input.mean({2, 3}), context), context);
  }

 private:
  Linear linear_;
  Dropout dropout_;
};

}  // namespace

std::vector<NamedBlock> build_resnet(const ResNetSpec& spec) {
  std::vector<NamedBlock> blocks;
  std::int64_t in = spec.channels.front();
  blocks.push_back({"stem", std::make_shared<Stem>(spec, in)});
  for (std::size_t stage = 0; stage < spec.channels.size(); ++stage) {
    const std::int64_t out = spec.channels[stage];
    for (std::int64_t i = 0; i < spec.blocks_per_stage; ++i) {
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      blocks.push_back({fmt::format("stage{}_block{}", stage, i),
                        std::make_shared<Basic>(BasicOptions{in, out, stride, spec.norm})});
      in = out;
    }
  }
  blocks.push_back({"head", std::make_shared<ResNetHead>(in, spec.classes, spec.dropout)});
  return blocks;
}

}  // namespace muster::models
