#include "muster/parallel/state_order.h"

#include <algorithm>
#include <cstddef>
#include <map>

namespace muster::parallel {

std::string owner_in(const std::string& state_name) {
  const std::size_t first = state_name.find('/');
  if (first == std::string::npos) return state_name;
  return state_name.substr(first + 1, state_name.rfind('/') - first - 1);
}

void sort_by_owner(const std::vector<std::string>& owners, std::vector<TensorSlice>& state) {
  std::map<std::string, std::size_t> place;
  for (const std::string& owner : owners) place.emplace(owner, place.size());
  std::ranges::stable_sort(
      state, {}, [&](const TensorSlice& slice) { return place.at(owner_in(slice.name)); });
}

}  // namespace muster::parallel
