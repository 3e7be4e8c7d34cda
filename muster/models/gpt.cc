#include "muster/models/gpt.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <cmath>

#include "muster/models/layers.h"

namespace muster::models {
namespace {

constexpr double kDeviation = 0.02;  // of initial weights, as in GPT-2

class Embedding final : public Block {
 public:
  explicit Embedding(const GptSpec& spec)
      : token_(add_parameter({.name = "token.weight",
                              .init = {InitKind::kNormal, kDeviation},
                              .split = Split::kVocabulary},
                             {spec.vocabulary, spec.width})),
        position_(
            add_parameter({.name = "position.weight", .init = {InitKind::kNormal, kDeviation}},
                          {spec.context, spec.width})),
        dropout_("dropout", spec.dropout) {}

  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    const auto tokens = torch::embedding(token_, input.to(torch::kLong));
    return dropout_(tokens + position_.narrow(0, 0, input.size(1)), context);
  }

  const torch::Tensor& token() const noexcept { return token_; }

 private:
  torch::Tensor token_;     // [vocabulary, width]
  torch::Tensor position_;  // [context, width]
  Dropout dropout_;
};

// x + attention(norm(x)), then x + mlp(norm(x)).
class Layer final : public Block {
 public:
  explicit Layer(const GptSpec& spec)
      : heads_(spec.heads),
        norm1_(*this, "norm1", spec.width),
        query_key_value_(*this, "qkv", column(spec, 3 * spec.width, 3 * spec.heads)),
        projection_(*this, "projection", row(spec, spec.width, spec.heads)),
        norm2_(*this, "norm2", spec.width),
        expand_(*this, "expand", column(spec, 4 * spec.width, 0)),
        contract_(*this, "contract", row(spec, 4 * spec.width, 0)),
        dropout1_("dropout1", spec.dropout),
        dropout2_("dropout2", spec.dropout) {}

  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    input = input + dropout1_(attend(norm1_(input)), context);
    const auto hidden = torch::gelu(expand_(norm2_(input)));
    return input + dropout2_(contract_(hidden), context);
  }

 private:
  static LinearOptions column(const GptSpec& spec, std::int64_t out, std::int64_t units) {
    return {.in = spec.width,
            .out = out,
            .init = {InitKind::kNormal, kDeviation},
            .split = Split::kColumn,
            .split_units = units};
  }
  // Smaller at the start where it ends a residual branch (Radford et al. 2019, §2.3).
  static LinearOptions row(const GptSpec& spec, std::int64_t in, std::int64_t units) {
    const double deviation = kDeviation / std::sqrt(2.0 * static_cast<double>(spec.layers));
    return {.in = in,
            .out = spec.width,
            .init = {InitKind::kNormal, deviation},
            .split = Split::kRow,
            .split_units = units};
  }

  // [n, positions, width] to the same; rows of qkv.weight: all queries, all keys, all values.
  torch::Tensor attend(const torch::Tensor& input) {
    const auto n = input.size(0), positions = input.size(1), width = input.size(2);
    const auto joint = query_key_value_(input).view({n, positions, 3, heads_, width / heads_});
    const auto part = [&](std::int64_t i) { return joint.select(2, i).transpose(1, 2); };
    const auto mixed =
        at::scaled_dot_product_attention(part(0), part(1), part(2), {}, 0.0, /*is_causal=*/true);
    return projection_(mixed.transpose(1, 2).reshape({n, positions, width}));
  }

  std::int64_t heads_;
  LayerNorm norm1_;
  Linear query_key_value_;
  Linear projection_;
  LayerNorm norm2_;
  Linear expand_;
  Linear contract_;
  Dropout dropout1_;
  Dropout dropout2_;
};

class Head final : public Block {
 public:
  // `tied`: the embedding's weight; undefined for a head of its own.
  Head(const GptSpec& spec, torch::Tensor tied)
      : norm_(*this, "norm", spec.width), weight_(std::move(tied)) {
    if (!weight_.defined())
      weight_ = add_parameter(
          {.name = "weight", .init = {InitKind::kNormal, kDeviation}, .split = Split::kVocabulary},
          {spec.vocabulary, spec.width});
  }

  torch::Tensor forward(torch::Tensor input, PassContext&) override {
    return torch::linear(norm_(input), weight_);
  }

 private:
  LayerNorm norm_;
  torch::Tensor weight_;  // [vocabulary, width]
};

}  // namespace

std::vector<NamedBlock> build_gpt(const GptSpec& spec) {
  const auto embedding = std::make_shared<Embedding>(spec);
  std::vector<NamedBlock> blocks{{"embedding", embedding}};
  for (std::int64_t i = 0; i < spec.layers; ++i)
    blocks.push_back({fmt::format("layer{}", i), std::make_shared<Layer>(spec)});
  const auto tied = spec.tied_head ? embedding->token() : torch::Tensor();
  blocks.push_back({"head", std::make_shared<Head>(spec, tied)});
  return blocks;
}

}  // namespace muster::models
