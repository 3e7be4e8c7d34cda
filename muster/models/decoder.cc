#include "muster/models/decoder.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <cmath>
#include <memory>
#include <optional>

#include "muster/base/round_up.h"
#include "muster/models/attention.h"
#include "muster/models/experts.h"
#include "muster/models/feed_forward.h"
#include "muster/models/layers.h"
#include "muster/models/positions.h"
#include "muster/models/tensor_ops.h"

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
  std::optional<ExpertsOptions> experts = {};  // instead, in every sparse_step-th layer
  std::int64_t sparse_step = 1;
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
      : vocabulary_(options.vocabulary),
        token_(
            add_parameter({.name = "token.weight", .init = kWeights, .split = Split::kVocabulary},
                          {options.vocabulary, options.width})),
        dropout_("dropout", options.dropout) {
    if (options.learned_positions > 0)
      position_ = add_parameter({.name = "position.weight", .init = kWeights},
                                {options.learned_positions, options.width});
  }

  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    if (context.sequences != nullptr)
      input = take(input, 1, positions_of(input.size(1), context.sequences));
    auto tokens = embed_over_ranks(token_, input.to(torch::kLong), vocabulary_, context.group);
    if (position_.defined())
      tokens = tokens + take(position_, 0, positions_between_layers(tokens.size(1), context));
    return dropout_.of_positions(tokens, context);
  }
  bool shares_sequences() const override { return true; }

 private:
  std::int64_t vocabulary_;
  torch::Tensor token_;     // [vocabulary, width], or this rank's entries of it
  torch::Tensor position_;  // [context, width]; undefined: none
  Dropout dropout_;
};

// x + attention(norm(x)), then x + mlp(norm(x)); the MLP is one feed-forward layer or `sparse`,
// several.
class Layer final : public Block {
 public:
  Layer(const DecoderOptions& options, bool sparse)
      : norm1_(*this, "norm1", options),
        attention_(*this, options.attention),
        norm2_(*this, "norm2", options),
        dropout1_("dropout1", options.dropout),
        dropout2_("dropout2", options.dropout) {
    if (sparse)
      experts_.emplace(*this, *options.experts);
    else
      feed_forward_.emplace(*this, options.feed_forward);
  }

  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    input = input + dropout1_.of_positions(attention_(norm1_(input), context), context);
    const auto normed = norm2_(input);
    const auto output = experts_ ? (*experts_)(normed, context) : (*feed_forward_)(normed, context);
    return input + dropout2_.of_positions(output, context);
  }
  // How many tokens an expert takes, and how unevenly they are dealt out, follows from all of them.
  bool shares_sequences() const override { return !experts_; }

  std::vector<BlockMetric> tell(std::span<const torch::Tensor> merged) const override {
    return experts_ ? Experts::tell(merged) : std::vector<BlockMetric>{};
  }

 private:
  Norm norm1_;
  Attention attention_;
  Norm norm2_;
  std::optional<FeedForward> feed_forward_;
  std::optional<Experts> experts_;
  Dropout dropout1_;
  Dropout dropout2_;
};

class Head final : public Block {
 public:
  // A tied one has the weights of the embedding.
  Head(const DecoderOptions& options, const NamedBlock& embedding)
      : norm_(*this, "norm", options),
        weight_(options.tied_head ? borrow(embedding, "token.weight")
                                  : add_parameter({.name = "weight",
                                                   .init = kWeights,
                                                   .split = Split::kVocabulary,
                                                   .products_only = true},
                                                  {options.vocabulary, options.width})) {}

  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    return torch::linear(enter_cut(norm_(input), context.group), weight_);
  }
  bool shares_sequences() const override { return true; }

 private:
  Norm norm_;
  torch::Tensor weight_;  // [vocabulary, width], or this rank's entries of it
};

std::vector<NamedBlock> build(const DecoderOptions& options) {
  const auto embedding = std::make_shared<Embedding>(options);
  std::vector<NamedBlock> blocks{{"embedding", embedding}};
  for (std::int64_t i = 0; i < options.layers; ++i)
    blocks.push_back(
        {fmt::format("layer{}", i),
         std::make_shared<Layer>(options, options.experts && (i + 1) % options.sparse_step == 0)});
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
                        .kv_heads = spec.kv_heads > 0 ? spec.kv_heads : spec.heads,
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

DecoderOptions options_of(const MoeSpec& spec) {
  DecoderOptions options = std::visit([](const auto& body) { return options_of(body); }, spec.body);
  options.experts = ExpertsOptions{.feed_forward = options.feed_forward,
                                   .experts = spec.experts,
                                   .per_token = spec.experts_per_token,
                                   .capacity_factor = spec.capacity_factor,
                                   .balance_loss = spec.balance_loss,
                                   .z_loss = spec.z_loss};
  options.sparse_step = spec.sparse_step;
  return options;
}

}  // namespace

std::int64_t hidden_width(const GptSpec& spec) noexcept {
  return spec.hidden > 0 ? spec.hidden : 4 * spec.width;
}

// The three matrices of SwiGLU have together about as many weights as the two of the gpt.
std::int64_t hidden_width(const LlamaSpec& spec) noexcept {
  if (spec.hidden > 0) return spec.hidden;
  return round_up(ceil_div(8 * spec.width, 3), kHiddenMultiple);
}

std::vector<NamedBlock> build_decoder(const GptSpec& spec) { return build(options_of(spec)); }
std::vector<NamedBlock> build_decoder(const LlamaSpec& spec) { return build(options_of(spec)); }
std::vector<NamedBlock> build_decoder(const MoeSpec& spec) { return build(options_of(spec)); }

}  // namespace muster::models
