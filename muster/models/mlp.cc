#include "muster/models/mlp.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <cmath>

#include "muster/models/layers.h"

namespace muster::models {
namespace {

class HiddenLayer final : public Block {
 public:
  HiddenLayer(std::int64_t in, std::int64_t out, double dropout)
      : linear_(*this, "linear",
                {.in = in,
                 .out = out,
                 .init = {InitKind::kKaiming, std::sqrt(2.0)},
                 .split = Split::kColumn}),
        dropout_("dropout", dropout) {}

  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    return dropout_(torch::relu(linear_(input.flatten(1), context)), context);
  }

 private:
  Linear linear_;
  Dropout dropout_;
};

class Head final : public Block {
 public:
  Head(std::int64_t in, std::int64_t classes)
      : linear_(*this, "linear",
                {.in = in, .out = classes, .init = {InitKind::kKaiming}, .split = Split::kRow}) {}

  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    return linear_(input.flatten(1), context);
  }

 private:
  Linear linear_;
};

}  // namespace

std::vector<NamedBlock> build_mlp(const MlpSpec& spec) {
  std::vector<NamedBlock> blocks;
  std::int64_t in = spec.inputs;
  for (std::size_t i = 0; i < spec.hidden.size(); ++i) {
    blocks.push_back({fmt::format("layer{}", i),
                      std::make_shared<HiddenLayer>(in, spec.hidden[i], spec.dropout)});
    in = spec.hidden[i];
  }
  blocks.push_back({"head", std::make_shared<Head>(in, spec.classes)});
  return blocks;
}

}  // namespace muster::models
