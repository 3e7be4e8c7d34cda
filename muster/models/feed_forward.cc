#include "muster/models/feed_forward.h"

#include "muster/models/tensor_ops.h"

namespace muster::models {
namespace {

LinearOptions column(const FeedForwardOptions& options) {
  return {.in = options.width,
          .out = options.hidden,
          .init = options.init,
          .split = Split::kColumn,
          .bias = options.bias,
          .expert = options.expert};
}

std::optional<Linear> gate_of(Block& owner, const FeedForwardOptions& options) {
  if (options.kind != FeedForwardKind::kSwiGlu) return std::nullopt;
  return Linear(owner, options.prefix + "gate", column(options));
}

}  // namespace

FeedForward::FeedForward(Block& owner, const FeedForwardOptions& options)
    : gate_(gate_of(owner, options)),
      expand_(owner, options.prefix + "expand", column(options)),
      contract_(owner, options.prefix + "contract",
                {.in = options.hidden,
                 .out = options.width,
                 .init = options.contract_init,
                 .split = Split::kRow,
                 .bias = options.bias,
                 .expert = options.expert}) {}

torch::Tensor FeedForward::operator()(const torch::Tensor& input,
                                      const PassContext& context) const {
  const auto shared = enter_cut(input, context.group);
  const auto expanded = expand_(shared, context);
  if (gate_) return contract_(torch::silu((*gate_)(shared, context)) * expanded, context);
  return contract_(torch::gelu(expanded), context);
}

}  // namespace muster::models
