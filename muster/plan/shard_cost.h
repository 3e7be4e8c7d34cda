#pragma once
// What ZeRO stages 2 and 3 move and hold: the units' gradients, bucket by bucket and turn by turn,
// to the owners of their shards (layout/shard_turns.h), and at stage 3 the weights of one block
// after the other (layout/weight_uses.h); where there are several replicas each within itself, and
// then the owners of a shard add up what their replicas found. Pure.

#include "muster/plan/exchange.h"
#include "muster/plan/model_profile.h"

namespace muster::plan {

struct ShardCost {
  ExchangeCost gradients;    // `gather`: stage 2, everybody gets the updated weights
  std::uint64_t window = 0;  // bytes of buckets that are filled, on their way and gathered
  // Stage 3, of the first worker:
  std::uint64_t weights = 0;  // bytes: its shards, and what is whole besides at a time
  Duration fetch{};           // all gathers of a step
  Duration first_fetch{};     // the first one, which nothing hides
};

// `profile.shards` has those among way.shard_count().
ShardCost shard_cost(const ModelProfile& profile, const Way& way, const Hardware& hardware);

}  // namespace muster::plan
