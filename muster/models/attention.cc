#include "muster/models/attention.h"

#include "muster/base/check.h"
#include "muster/models/positions.h"
#include "muster/models/tensor_ops.h"

namespace muster::models {
namespace {

// `output` [n, positions, …] by heads: [n, heads, positions, head_width].
torch::Tensor split_heads(const torch::Tensor& output, std::int64_t head_width) {
  return output.unflatten(-1, {output.size(-1) / head_width, head_width}).transpose(1, 2);
}

std::vector<Linear> input_layers(Block& owner, const AttentionOptions& options) {
  const std::int64_t head_width = options.width / options.heads;
  const auto layer = [&](const std::string& name, std::int64_t heads) {
    return Linear(owner, name,
                  {.in = options.width,
                   .out = heads * head_width,
                   .init = options.init,
                   .split = Split::kColumn,
                   .split_units = options.joint ? heads : options.kv_heads,
                   .stacked = options.joint ? 3 : 1,
                   .bias = options.bias});
  };
  if (options.joint) return {layer("qkv", 3 * options.heads)};
  return {layer("query", options.heads), layer("key", options.kv_heads),
          layer("value", options.kv_heads)};
}

}  // namespace

Attention::Attention(Block& owner, const AttentionOptions& options)
    : heads_(options.heads),
      kv_heads_(options.kv_heads),
      head_width_(options.width / options.heads),
      inputs_(input_layers(owner, options)),
      projection_(owner, "projection",
                  {.in = options.width,
                   .out = options.width,
                   .init = options.projection_init,
                   .split = Split::kRow,
                   .split_units = options.kv_heads,
                   .bias = options.bias}),
      rotary_(options.rotary) {
  MUSTER_CHECK(heads_ % kv_heads_ == 0 && (!options.joint || heads_ == kv_heads_),
               "query heads do not divide into groups");
}

AttentionHeads Attention::joint_heads(const torch::Tensor& input,
                                      const PassContext& context) const {
  const auto n = input.size(0), positions = input.size(1);
  const torch::Tensor output = inputs_[0](input, context);
  const std::int64_t heads = output.size(2) / (3 * head_width_);  // here
  const torch::Tensor joint = output.view({n, positions, 3, heads, head_width_});
  const auto part = [&](std::int64_t i) { return joint.select(2, i).transpose(1, 2); };
  return {part(0), part(1), part(2)};
}

AttentionHeads Attention::separate_heads(const torch::Tensor& input,
                                         const PassContext& context) const {
  const auto part = [&](std::size_t i) {
    return split_heads(inputs_[i](input, context), head_width_);
  };
  return {part(0), part(1), part(2)};
}

torch::Tensor Attention::mixed(const AttentionHeads& heads, const PassContext& context) const {
  if (context.sequences != nullptr) return context_attention(heads, *context.sequences);
  if (heads.query.size(0) == 0) return heads.query;  // the kernel divides by it
  return at::scaled_dot_product_attention(heads.query, heads.key, heads.value, {}, 0.0,
                                          /*is_causal=*/true, std::nullopt,
                                          /*enable_gqa=*/kv_heads_ != heads_);
}

torch::Tensor Attention::operator()(const torch::Tensor& input, const PassContext& context) const {
  const auto shared = enter_cut(input, context.group);
  AttentionHeads part =
      inputs_.size() == 1 ? joint_heads(shared, context) : separate_heads(shared, context);
  if (rotary_) {
    const AxisPart here =
        positions_of(part.query.size(2) * ranks_of(context.sequences), context.sequences);
    part.query = rotary_->rotate(part.query, here);
    part.key = rotary_->rotate(part.key, here);
  }
  return projection_(mixed(part, context).transpose(1, 2).flatten(2), context);
}

}  // namespace muster::models
