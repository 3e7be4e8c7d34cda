#include "muster/models/experts.h"

#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>

#include "muster/models/auxiliary_loss.h"
#include "muster/models/dispatch.h"

namespace muster::models {
namespace {

constexpr Init kRouterWeights{InitKind::kNormal, 0.02};

RoutingOptions routing_options(const ExpertsOptions& options) {
  return {.experts = options.experts, .per_token = options.per_token};
}

// By expert, of all choices.
torch::Tensor load_of(const Routing& routing, const torch::TensorOptions& options) {
  auto load = torch::empty({std::ssize(routing.wanted)}, torch::kFloat64);
  for (std::int64_t expert = 0; expert < load.numel(); ++expert)
    load.data_ptr<double>()[expert] =
        static_cast<double>(routing.wanted[expert]) / static_cast<double>(routing.chosen.size());
  return load.to(options);
}

double dropped_share(const Routing& routing) {
  return 1 - static_cast<double>(routing.order.size()) / static_cast<double>(routing.chosen.size());
}

}  // namespace

Experts::Experts(Block& owner, const ExpertsOptions& options)
    : options_(options),
      owner_(owner),
      router_(owner.add_parameter({.name = "router.weight", .init = kRouterWeights},
                                  {options.experts, options.feed_forward.width})) {
  for (std::int64_t expert = 0; expert < options.experts; ++expert) {
    FeedForwardOptions own = options.feed_forward;
    own.prefix = fmt::format("experts.{}.", expert);
    own.expert = expert;
    experts_.emplace_back(owner, own);
  }
  load_ = owner.add_statistic("router.load", options.experts,
                              1.0 / static_cast<double>(options.experts));
  owner.add_statistic("router.dropped", 1, 0);
  owner.add_statistic("router.balance_loss", 1, 1);
  owner.add_statistic("router.z_loss", 1, 0);
}

torch::Tensor Experts::operator()(const torch::Tensor& input, PassContext& context) const {
  const torch::Tensor tokens = input.flatten(0, -2);
  const torch::Tensor logits = this->logits(tokens);
  const torch::Tensor probabilities = torch::softmax(logits, -1);
  const Routing routing = routing_of(logits, context.training);
  const Dispatch dispatch(routing, options_.per_token, tokens.device());
  const torch::Tensor answers =
      dispatch.to_tokens(compute(dispatch.to_experts(tokens), routing, context));
  const torch::Tensor weights = gates(probabilities, routing).to(answers.scalar_type());
  torch::Tensor output = (answers * weights.unsqueeze(-1)).sum(1).view(input.sizes());
  if (!context.training) return output;
  return with_losses(output, logits, probabilities, routing, context);
}

torch::Tensor Experts::logits(const torch::Tensor& tokens) const {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return torch::linear(tokens.to(router_.scalar_type()), router_);
}

Routing Experts::routing_of(const torch::Tensor& logits, bool training) const {
  const torch::Tensor scores = logits.detach().to(torch::kCPU, torch::kFloat64).contiguous();
  RoutingOptions options = routing_options(options_);
  if (training && options_.capacity_factor)
    options.capacity = expert_capacity(*options_.capacity_factor, scores.size(0), options);
  return route({scores.const_data_ptr<double>(), static_cast<std::size_t>(scores.numel())},
               options);
}

// [tokens, per_token]
torch::Tensor Experts::gates(const torch::Tensor& probabilities, const Routing& routing) const {
  const auto chosen = torch::tensor(routing.chosen, probabilities.device())
                          .view({probabilities.size(0), options_.per_token});
  const torch::Tensor gates = probabilities.gather(1, chosen);
  return options_.per_token == 1 ? gates : gates / gates.sum(1, /*keepdim=*/true);
}

// Each expert over its rows of [rows, width].
torch::Tensor Experts::compute(const torch::Tensor& rows, const Routing& routing,
                               const PassContext& context) const {
  if (context.experts != nullptr)
    return compute_over_ranks(rows, routing.rows, experts_of(context.experts->share(), context),
                              *context.experts);
  const std::vector<torch::Tensor> parts = rows.split_with_sizes(routing.rows);
  std::vector<torch::Tensor> answers;
  for (std::size_t expert = 0; expert < experts_.size(); ++expert)
    if (routing.rows[expert] > 0) answers.push_back(experts_[expert](parts[expert], context));
  return torch::cat(answers);
}

ExpertsHere Experts::experts_of(TensorShare share, const PassContext& context) const {
  const auto compute = [this, &context](std::int64_t expert, const torch::Tensor& rows) {
    return experts_[static_cast<std::size_t>(expert)](rows, context);
  };
  const auto trained = [this](std::int64_t expert) {
    std::vector<torch::Tensor> tensors;
    for (const BlockParameter& parameter : owner_.parameters())
      if (parameter.expert == expert && parameter.tensor.requires_grad())
        tensors.push_back(parameter.tensor);
    return tensors;
  };
  return {share_of(options_.experts, 0, share), compute, trained};
}

torch::Tensor Experts::with_losses(const torch::Tensor& output, const torch::Tensor& logits,
                                   const torch::Tensor& probabilities, const Routing& routing,
                                   PassContext& context) const {
  if (routing.chosen.empty()) return without_losses(output, context);
  const torch::Tensor load = load_of(routing, probabilities.options());
  const torch::Tensor balance =
      (load * probabilities.mean(0)).sum() * static_cast<double>(options_.experts);
  const torch::Tensor z = torch::logsumexp(logits, -1).square().mean();
  if (context.statistics != nullptr) {
    const auto push = [&](const torch::Tensor& value) {
      context.statistics->push_back(value.detach().to(load_.options()).reshape(-1));
    };
    push(load);
    push(torch::full({1}, dropped_share(routing), load_.options()));
    push(balance);
    push(z);
  }
  return attach_loss(output, balance * options_.balance_loss + z * options_.z_loss,
                     context.auxiliary_weight);
}

// A rank that only takes part in what others compute has no tokens, of which nothing is the mean.
torch::Tensor Experts::without_losses(const torch::Tensor& output, PassContext& context) const {
  if (context.statistics != nullptr)
    for (const std::int64_t size : {options_.experts, 1L, 1L, 1L})
      context.statistics->push_back(torch::zeros({size}, load_.options()));
  return output;
}

std::vector<BlockMetric> Experts::tell(std::span<const torch::Tensor> merged) {
  const auto value = [&](std::size_t i) { return merged[i].max().item<double>(); };
  const auto experts = static_cast<double>(merged[0].numel());
  return {{"moe/load_imbalance", value(0) * experts},
          {"moe/dropped_fraction", value(1)},
          {"moe/balance_loss", value(2)},
          {"moe/z_loss", value(3)}};
}

}  // namespace muster::models
