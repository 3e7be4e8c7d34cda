#include "muster/models/adapter.h"

#include <algorithm>
#include <cmath>

#include "muster/base/adapter_names.h"
#include "muster/base/check.h"
#include "muster/base/glob.h"
#include "muster/models/dropout.h"
#include "muster/models/positions.h"
#include "muster/models/tensor_group.h"

namespace muster::models {
namespace {

std::string name_of(const NamedBlock& block, const AdaptableLayer& layer) {
  return block.name + "." + layer.name;
}

BlockParameter weight_of(const Block& block, const std::string& layer) {
  const auto weight =
      std::ranges::find(block.parameters(), layer + ".weight", &BlockParameter::name);
  MUSTER_CHECK(weight != block.parameters().end(), layer + " has no weight");
  return *weight;
}

}  // namespace

// A layer that is cut along its outputs has its B cut so as well, one along its inputs its A. The
// other one is whole, and of its gradient each rank finds what comes of its part of the layer.
void Adapter::attach(Block& owner, const std::string& layer, const BlockParameter& weight,
                     const AdapterSpec& spec) {
  const std::int64_t out = weight.tensor.size(0), in = weight.tensor.size(1);
  const auto add = [&](std::string_view suffix, Init init, Split split, torch::IntArrayRef shape) {
    const bool cut = weight.split == split;
    return owner.add_parameter({.name = layer + std::string(suffix),
                                .init = init,
                                .split = cut ? split : Split::kNone,
                                .split_units = cut ? weight.split_units : 0,
                                .stacked = cut ? weight.stacked : 1,
                                .expert = weight.expert,
                                .has_addends = !cut && weight.split != Split::kNone,
                                .products_only = true},
                               shape);
  };
  down_ = add(kAdapterDown, {InitKind::kUniform, 1 / std::sqrt(static_cast<double>(in))},
              Split::kRow, {spec.rank, in});
  up_ = add(kAdapterUp, {InitKind::kZeros}, Split::kColumn, {out, spec.rank});
  alpha_ = owner.add_parameter(
      {.name = layer + std::string(kAdapterAlpha),
       .tensor = torch::full({1}, spec.alpha,
                             torch::TensorOptions(torch::kFloat32).device(down_.device()))
                     .set_requires_grad(true),
       .expert = weight.expert,
       .decays = false},
      {1});
  name_ = layer + ".lora_dropout";
  dropout_ = spec.dropout;
  in_ = in;
  split_units_ = weight.split_units;
  row_ = weight.split == Split::kRow;
}

// Of [n, positions here, …, inputs here]: those columns of the mask of whole inputs.
torch::Tensor Adapter::mask_of_part(const torch::Tensor& input, const AxisPart& positions,
                                    const RandomStream& random, const TensorGroup& group) const {
  auto sizes = input.sizes().vec();
  sizes.back() = in_;
  const auto whole = sizes.size() > 2 ? dropout_mask(sizes, positions, dropout_, random)
                                      : dropout_mask(sizes, dropout_, random);
  const Share own = share_of(in_, split_units_, group.share());
  return whole.narrow(-1, own.begin, own.size());
}

torch::Tensor Adapter::dropped(const torch::Tensor& input, const PassContext& context) const {
  if (!context.training || dropout_ == 0) return input;
  const RandomStream random = context.random.fork(name_);
  // Inside a layer a tensor group has all positions.
  const std::int64_t whole = input.size(1) * ranks_of(context.sequences);
  const AxisPart positions = positions_of(whole, context.sequences);
  if (row_ && context.group != nullptr)
    return input * mask_of_part(input, positions, random, *context.group).to(input.options());
  if (context.sequences == nullptr) return dropout(input, dropout_, random);
  return dropout(input, positions, dropout_, random);
}

torch::Tensor Adapter::operator()(const torch::Tensor& input, const PassContext& context) const {
  const auto seen = dropped(input, context);
  const auto scale = alpha_ / static_cast<double>(down_.size(0));
  return torch::linear(torch::linear(seen, down_) * scale, up_);
}

void add_adapters(const std::vector<NamedBlock>& blocks, const AdapterSpec& spec) {
  if (spec.rank == 0) return;
  for (const NamedBlock& named : blocks)
    for (const AdaptableLayer& layer : named.block->layers())
      if (matches_any(spec.target_modules, name_of(named, layer)))
        layer.adapter->attach(*named.block, layer.name, weight_of(*named.block, layer.name), spec);
}

std::vector<std::string> adaptable_layers(const std::vector<NamedBlock>& blocks) {
  std::vector<std::string> names;
  for (const NamedBlock& named : blocks)
    for (const AdaptableLayer& layer : named.block->layers())
      names.push_back(name_of(named, layer));
  return names;
}

}  // namespace muster::models
