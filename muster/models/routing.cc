#include "muster/models/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "muster/base/check.h"

namespace muster::models {
namespace {

// The highest of `scores` whose expert is not among `taken`. A score that is not a number is never
// higher, so there is an answer even then; the loss will tell.
std::int64_t best_left(std::span<const double> scores, std::span<const std::int64_t> taken) {
  const auto left = [&](std::int64_t expert) {
    return std::find(taken.begin(), taken.end(), expert) == taken.end();
  };
  std::int64_t best = 0;
  while (!left(best)) ++best;
  for (std::int64_t expert = best + 1; expert < std::ssize(scores); ++expert)
    if (scores[expert] > scores[best] && left(expert)) best = expert;
  return best;
}

std::vector<std::int64_t> choose(std::span<const double> scores, const RoutingOptions& options) {
  const auto experts = static_cast<std::size_t>(options.experts);
  const auto per_token = static_cast<std::size_t>(options.per_token);
  std::vector<std::int64_t> chosen(scores.size() / experts * per_token);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::size_t token = i / per_token;
    const std::span taken(chosen.data() + token * per_token, i - token * per_token);
    chosen[i] = best_left(scores.subspan(token * experts, experts), taken);
  }
  return chosen;
}

}  // namespace

Routing route(std::span<const double> scores, const RoutingOptions& options) {
  MUSTER_CHECK(options.per_token >= 1 && options.per_token <= options.experts,
               "a token chooses one to all experts");
  Routing routing;
  routing.chosen = choose(scores, options);
  routing.wanted.resize(static_cast<std::size_t>(options.experts));
  for (const std::int64_t expert : routing.chosen) ++routing.wanted[expert];
  routing.rows = routing.wanted;
  if (options.capacity)
    for (std::int64_t& rows : routing.rows) rows = std::min(rows, *options.capacity);
  std::vector<std::int64_t> next(routing.rows.size());
  std::exclusive_scan(routing.rows.begin(), routing.rows.end(), next.begin(), std::int64_t{0});
  std::vector<std::int64_t> room = routing.rows;
  routing.order.resize(static_cast<std::size_t>(
      std::accumulate(routing.rows.begin(), routing.rows.end(), std::int64_t{0})));
  const std::int64_t assignments = std::ssize(routing.chosen);
  for (std::int64_t choice = 0; choice < options.per_token; ++choice)
    for (std::int64_t i = choice; i < assignments; i += options.per_token) {
      const std::int64_t expert = routing.chosen[i];
      if (room[expert]-- > 0) routing.order[next[expert]++] = i;
    }
  return routing;
}

std::int64_t expert_capacity(double factor, std::int64_t tokens, const RoutingOptions& options) {
  const double even =
      static_cast<double>(options.per_token * tokens) / static_cast<double>(options.experts);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(factor * even)));
}

}  // namespace muster::models
