#include "muster/models/mlp.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <cmath>

#include "muster/models/layers.h"
#include "muster/models/tensor_ops.h"

namespace muster::models {
namespace {

// The linear layers in pairs: the first of two is cut along its outputs, the second along its
// inputs, so that ranks meet once a pair. A last one without a partner is not cut.
Split split_of(std::size_t layer, std::size_t layers) {
  if (layer % 2 == 1) return Split::kRow;
  return layer + 1 < layers ? Split::kColumn : Split::kNone;
}

struct HiddenOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  double dropout = 0;
  Split split = Split::kColumn;
};

class HiddenLayer final : public Block {
 public:
  explicit HiddenLayer(const HiddenOptions& options)
      : out_(options.out),
        column_(options.split == Split::kColumn),
        linear_(*this, "linear",
                {.in = options.in,
                 .out = options.out,
                 .init = {InitKind::kKaiming, std::sqrt(2.0)},
                 .split = options.split}),
        dropout_("dropout", options.dropout) {}

  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    input = input.flatten(1);
    if (!column_ || context.group == nullptr)
      return dropout_(torch::relu(linear_(input, context)), context);
    const auto part = torch::relu(linear_(copy_to_ranks(input, context.group), context));
    const Share own = share_of(out_, 0, context.group->share());
    return dropout_.of_part(part, {.whole = out_, .runs = {own}}, context);
  }

 private:
  std::int64_t out_;
  bool column_;
  Linear linear_;
  Dropout dropout_;
};

class MlpHead final : public Block {
 public:
  MlpHead(std::int64_t in, std::int64_t classes, Split split)
      : linear_(*this, "linear",
                {.in = in, .out = classes, .init = {InitKind::kKaiming}, .split = split}) {}

  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    return linear_(input.flatten(1), context);
  }

 private:
  Linear linear_;
};

}  // namespace

std::vector<NamedBlock> build_mlp(const MlpSpec& spec) {
  std::vector<NamedBlock> blocks;
  const std::size_t layers = spec.hidden.size() + 1;
  std::int64_t in = spec.inputs;
  for (std::size_t i = 0; i < spec.hidden.size(); ++i) {
    blocks.push_back({fmt::format("layer{}", i),
                      std::make_shared<HiddenLayer>(HiddenOptions{.in = in,
                                                                  .out = spec.hidden[i],
                                                                  .dropout = spec.dropout,
                                                                  .split = split_of(i, layers)})});
    in = spec.hidden[i];
  }
  const Split last = split_of(spec.hidden.size(), layers);
  blocks.push_back({"head", std::make_shared<MlpHead>(in, spec.classes, last)});
  return blocks;
}

}  // namespace muster::models
