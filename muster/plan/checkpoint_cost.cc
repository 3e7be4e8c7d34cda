#include "muster/plan/checkpoint_cost.h"

#include <algorithm>

namespace muster::plan {

// The copy is one piece, and stays for the next save (checkpoint/snapshot.h): beside the passes
// where steps follow. What the others had is forgotten with the next update, so passes never meet
// it; as freed memory of theirs it takes only what is large, which then goes back as well.
std::uint64_t checkpoint_bytes(const ModelProfile& whole, const Way& way, std::uint64_t here,
                               std::uint64_t given_back) {
  if (way.saves == Saves::kNever) return 0;
  const std::uint64_t copy = whole.state_bytes(), got = copy - std::min(copy, here);
  const std::uint64_t between_passes = way.saves == Saves::kAtEnd ? copy + got : got;
  return copy + got - std::min(between_passes, given_back);
}

std::uint64_t state_held_whole(const ModelProfile& whole, const Way& way, std::int64_t cut) {
  const std::uint64_t all = whole.state_bytes();
  if (way.workers == 1) return all;
  std::uint64_t optimizer = 0;
  for (const BlockProfile& block : whole.blocks) optimizer += block.optimizer_bytes;
  if (way.spread == Spread::kSharded && way.zero_stage > 2) return 0;
  const bool has_optimizer = way.shard_count() == 1;
  if (way.tensor * way.expert == 1) return has_optimizer ? all : all - optimizer;
  const auto trained = static_cast<double>(std::max<std::int64_t>(1, whole.trained_parameters()));
  const double share = has_optimizer ? static_cast<double>(cut) / trained : 0;
  return static_cast<std::uint64_t>(cut) * kFloat +
         static_cast<std::uint64_t>(static_cast<double>(optimizer) * share);
}

}  // namespace muster::plan
