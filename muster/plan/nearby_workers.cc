#include "muster/plan/nearby_workers.h"

#include <algorithm>

namespace muster::plan {
namespace {

constexpr std::size_t kMostNearby = 4;  // a hundred ways are checked and priced for each

}  // namespace

std::vector<std::int32_t> nearby_workers(std::int32_t workers, std::int32_t slices) {
  std::vector<std::int32_t> nearby;
  for (std::int32_t count = 1; count <= slices; ++count)
    if (count != workers && slices % count == 0) nearby.push_back(count);
  const auto distance = [&](std::int32_t count) {
    return static_cast<double>(std::max(count, workers)) / std::min(count, workers);
  };
  std::ranges::stable_sort(nearby, {}, distance);
  if (nearby.size() > kMostNearby) nearby.resize(kMostNearby);
  return nearby;
}

}  // namespace muster::plan
