#include "muster/layout/weight_uses.h"

#include <algorithm>

namespace muster::layout {

std::vector<WeightUse> uses_of_step(std::span<const std::int32_t> own, std::size_t blocks) {
  std::vector<WeightUse> uses;
  uses.reserve(own.size() * 2 * blocks);
  for (const std::int32_t users : own) {
    for (std::size_t b = 0; b < blocks; ++b) uses.push_back({b, users});
    for (std::size_t b = blocks; b-- > 0;) uses.push_back({b, users});
  }
  return uses;
}

std::vector<WeightUse> uses_of_evaluation(std::size_t blocks) {
  std::vector<WeightUse> uses;
  uses.reserve(blocks);
  for (std::size_t b = 0; b < blocks; ++b) uses.push_back({b, 1});
  return uses;
}

WeightTraffic traffic_of(std::span<const WeightUse> uses,
                         std::span<const std::vector<std::size_t>> needed,
                         std::span<const std::int64_t> sizes) {
  WeightTraffic traffic{.gathers = std::vector<std::int32_t>(sizes.size())};
  const auto needs = [&](std::size_t use, std::size_t bucket) {
    return use < uses.size() && std::ranges::count(needed[uses[use].block], bucket) > 0;
  };
  std::vector<bool> here(sizes.size());
  for (std::size_t use = 0; use < uses.size(); ++use) {
    std::int64_t elements = 0;
    for (std::size_t bucket = 0; bucket < sizes.size(); ++bucket) {
      const bool wanted = needs(use, bucket) || needs(use + 1, bucket);
      if (wanted && !here[bucket]) ++traffic.gathers[bucket];
      here[bucket] = wanted;
      if (wanted) elements += sizes[bucket];
    }
    traffic.most = std::max(traffic.most, elements);
  }
  return traffic;
}

}  // namespace muster::layout
