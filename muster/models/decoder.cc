#include "muster/models/decoder.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <cmath>
#include <memory>
#include <optional>

#include "muster/models/attention.h"
#include "muster/models/feed_forward.h"
#include "muster/models/layers.h"

namespace muster::models {
namespace {

constexpr Init kWeights{InitKind::kNormal, 0.02};  // as in GPT-2
constexpr std::int64_t kHiddenMultiple = 32;

// What the families differ in.
struct DecoderOptions {
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;
  std::int64_t layers = 0;
  std::int64_t learned_positions = 0;      // 0: none
  std::optional<double> rms_epsilon = {};  // of RMSNorm; none: layer norm
  AttentionOptions attention;
  FeedForwardOptions feed_forward;
  double dropout = 0;
  bool tied_head = true;
};

// Smaller at the start where a matrix ends a residual branch (Radford et al. 2019, §2.3).
Init residual_weights(std::int64_t layers) {
  return {kWeights.kind, kWeights.scale / std::sqrt(2.0 * static_cast<double>(layers))};
}

class Norm {
 public:
  Norm(Block& owner, const std::string& name, const DecoderOptions& options) {
    if (options.rms_epsilon)
      rms_.emplace(owner, name, options.width, *options.rms_epsilon);
    else
      layer_.emplace(owner, name, options.width);
  }
  torch::Tensor operator()(const torch::Tensor& input) const {
    return rms_ ? (*rms_)(input) : (*layer_)(input);
  }

 private:
  std::optional<RmsNorm> rms_;
  std::optional<LayerNorm> layer_;
};

class Embedding final : public Block {
 public:
  explicit Embedding(const DecoderOptions& options)
      : token_(
            add_parameter({.name = "token.weight", .init = kWeights, .split = Split::kVocabulary},
                          {options.vocabulary, options.width})),
        dropout_("dropout", options.dropout) {
    if (options.learned_positions > 0)
      position_ = add_parameter({.name = "position.weight", .init = kWeights},
                                {options.learned_positions, options.width});
  }

  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    auto tokens = torch::embedding(token_, input.to(torch::kLong));
    if (position_.defined()) tokens = tokens + position_.narrow(0, 0, input.size(1));
    return dropout_(tokens, context);
  }

 private:
  torch::Tensor token_;     // [vocabulary, width]
  torch::Tensor position_;  // [context, width]; undefined: none
  Dropout dropout_;
};

// x + attention(norm(x)), then x + feed_forward(norm(x)).
class Layer final : public Block {
 public:
  explicit Layer(const DecoderOptions& options)
      : norm1_(*this, "norm1", options),
        attention_(*this, options.attention),
        norm2_(*this, "norm2", options),
        feed_forward_(*this, options.feed_forward),
        dropout1_("dropout1", options.dropout),
        dropout2_("dropout2", options.dropout) {}

  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    input = input + dropout1_(attention_(norm1_(input)), context);
    return input + dropout2_(feed_forward_(norm2_(input)), context);
  }

 private:
  Norm norm1_;
  Attention attention_;
  Norm norm2_;
  FeedForward feed_forward_;
  Dropout dropout1_;
  Dropout dropout2_;
};

class Head final : public Block {
 public:
  // A tied one has the weights of the embedding.
  Head(const DecoderOptions& options, const NamedBlock& embedding)
      : norm_(*this, "norm", options),
        weight_(
            options.tied_head
                ? borrow(embedding, "token.weight")
                : add_parameter({.name = "weight", .init = kWeights, .split = Split::kVocabulary},
                                {options.vocabulary, options.width})) {}

  torch::Tensor forward(torch::Tensor input, PassContext&) override {
    return torch::linear(norm_(input), weight_);
  }

 private:
  Norm norm_;
  torch::Tensor weight_;  // [vocabulary, width]
};

std::vector<NamedBlock> build(const DecoderOptions& options) {
  const auto embedding = std::make_shared<Embedding>(options);
  std::vector<NamedBlock> blocks{{"embedding", embedding}};
  for (std::int64_t i = 0; i < options.layers; ++i)
    blocks.push_back({fmt::format("layer{}", i), std::make_shared<Layer>(options)});
  blocks.push_back({"head", std::make_shared<Head>(options, blocks.front())});
  return blocks;
}

DecoderOptions options_of(const GptSpec& spec) {
  const Init ending = residual_weights(spec.layers);
  return {.vocabulary = spec.vocabulary,
          .width = spec.width,
          .layers = spec.layers,
          .learned_positions = spec.context,
          .attention = {.width = spec.width,
                        .heads = spec.heads,
                        .kv_heads = spec.heads,
                        .joint = true,
                        .bias = true,
                        .init = kWeights,
                        .projection_init = ending},
          .feed_forward = {.kind = FeedForwardKind::kGelu,
                           .width = spec.width,
                           .hidden = hidden_width(spec),
                           .bias = true,
                           .init = kWeights,
                           .contract_init = ending},
          .dropout = spec.dropout,
          .tied_head = spec.tied_head};
}

DecoderOptions options_of(const LlamaSpec& spec) {
  const Init ending = residual_weights(spec.layers);
  return {.vocabulary = spec.vocabulary,
          .width = spec.width,
          .layers = spec.layers,
          .rms_epsilon = spec.norm_epsilon,
          .attention = {.width = spec.width,
                        .heads = spec.heads,
                        .kv_heads = spec.kv_heads,
                        .init = kWeights,
                        .projection_init = ending,
                        .rotary = std::make_shared<const RotaryTable>(
                            spec.context, spec.width / spec.heads, spec.rotary_base)},
          .feed_forward = {.kind = FeedForwardKind::kSwiGlu,
                           .width = spec.width,
                           .hidden = hidden_width(spec),
                           .init = kWeights,
                           .contract_init = ending},
          .dropout = spec.dropout,
          .tied_head = spec.tied_head};
}

}  // namespace

std::int64_t hidden_width(const GptSpec& spec) noexcept {
  return spec.hidden > 0 ? spec.hidden : 4 * spec.width;
}

// The three matrices of SwiGLU have together about as many weights as the two of the gpt.
std::int64_t hidden_width(const LlamaSpec& spec) noexcept {
  if (spec.hidden > 0) return spec.hidden;
  const std::int64_t least = (8 * spec.width + 2) / 3;
  return (least + kHiddenMultiple - 1) / kHiddenMultiple * kHiddenMultiple;
}

std::vector<NamedBlock> build_decoder(const GptSpec& spec) { return build(options_of(spec)); }
std::vector<NamedBlock> build_decoder(const LlamaSpec& spec) { return build(options_of(spec)); }

}  // namespace muster::models
