#pragma once
// Which blocks' weights a rank has at which time of a step (ZeRO stage 3): one block after the
// other, forward and back, turn by turn (shard_turns.h). Pure; the same blocks in the same order on
// every rank, whatever it computes itself.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace muster::layout {

struct WeightUse {
  std::size_t block = 0;
  std::int32_t users = 0;  // lanes of this rank that will come by; 0: the others need it to help
  friend bool operator==(const WeightUse&, const WeightUse&) = default;
};

// `own`: this rank's units by turn. Of turn t: 2 · blocks uses from t · 2 · blocks on.
std::vector<WeightUse> uses_of_step(std::span<const std::int32_t> own, std::size_t blocks);

// Forward only, by one user.
std::vector<WeightUse> uses_of_evaluation(std::size_t blocks);

// What comes of it where weights are gathered for a use and the next, and forgotten when neither
// needs them any more.
struct WeightTraffic {
  std::vector<std::int32_t> gathers;  // by bucket
  std::int64_t most = 0;              // elements that are here at a time
};
// needed[b]: the buckets that block b uses. `sizes`: their elements.
WeightTraffic traffic_of(std::span<const WeightUse> uses,
                         std::span<const std::vector<std::size_t>> needed,
                         std::span<const std::int64_t> sizes);

}  // namespace muster::layout
