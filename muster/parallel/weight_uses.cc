#include "muster/parallel/weight_uses.h"

namespace muster::parallel {

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

}  // namespace muster::parallel
