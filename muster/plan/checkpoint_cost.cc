#include "muster/plan/checkpoint_cost.h"

#include <algorithm>

namespace muster::plan {

std::uint64_t checkpoint_bytes(const ModelProfile& whole, const Way& way, std::uint64_t here) {
  if (!way.saves) return 0;
  const std::uint64_t all = whole.state_bytes();
  return all + (all - std::min(all, here));
}

std::uint64_t state_held_whole(const ModelProfile& whole, const Way& way, std::int64_t cut) {
  const std::uint64_t all = whole.state_bytes();
  if (way.workers == 1) return all;
  std::uint64_t optimizer = 0;
  for (const BlockProfile& block : whole.blocks) optimizer += block.optimizer_bytes;
  if (way.spread == Spread::kSharded) return way.zero_stage > 2 ? 0 : all - optimizer;
  if (way.spread != Spread::kTensor) return all;
  const auto trained = static_cast<double>(std::max<std::int64_t>(1, whole.trained_parameters()));
  const double share = static_cast<double>(cut) / trained;
  return static_cast<std::uint64_t>(cut) * kFloat +
         static_cast<std::uint64_t>(static_cast<double>(optimizer) * share);
}

}  // namespace muster::plan
