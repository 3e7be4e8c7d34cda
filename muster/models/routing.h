#pragma once
// Which experts of a mixture a token goes to, and in which order the experts see their tokens: pure
// decisions over plain numbers, so the same scores give the same answer wherever they were
// computed. Everything here is pure and thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace muster::models {

struct RoutingOptions {
  std::int64_t experts = 1;
  std::int64_t per_token = 1;                 // at most `experts`
  std::optional<std::int64_t> capacity = {};  // tokens an expert takes; none: all that come
};

// An assignment is one choice of one token; its index is token · per_token + choice.
struct Routing {
  std::vector<std::int64_t> chosen;  // by assignment: the expert
  std::vector<std::int64_t> order;   // the assignments that are carried out, expert after expert
  std::vector<std::int64_t> rows;    // by expert: how many of `order`
  std::vector<std::int64_t> wanted;  // by expert: how many without a capacity
};

// `scores` [tokens, experts]. A token's choices are its `per_token` highest scores, best first; of
// equal ones the expert of lower index. An expert that more assignments want than it has capacity
// takes all first choices before second ones, and earlier tokens before later ones (GShard,
// Lepikhin et al. 2021); the others are dropped.
Routing route(std::span<const double> scores, const RoutingOptions& options);

// factor · the rows of an expert if all were equally wanted, rounded up, at least 1.
std::int64_t expert_capacity(double factor, std::int64_t tokens, const RoutingOptions& options);

}  // namespace muster::models
