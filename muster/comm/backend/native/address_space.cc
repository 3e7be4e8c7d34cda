#include "muster/comm/backend/native/address_space.h"

#include <algorithm>
#include <iterator>

#include "muster/base/check.h"
#include "muster/base/round_up.h"

namespace muster::comm {

std::optional<std::size_t> AddressSpace::take(std::size_t bytes, std::size_t alignment) {
  MUSTER_CHECK(bytes > 0, "something is asked for");
  const auto found = std::ranges::find_if(free_, [&](const auto& part) {
    const std::size_t at = round_up(part.first, alignment);
    return at < part.second && bytes <= part.second - at;
  });
  if (found == free_.end()) return std::nullopt;
  const auto [begin, end] = *found;
  const std::size_t at = round_up(begin, alignment);
  free_.erase(found);
  if (begin < at) free_[begin] = at;
  if (at + bytes < end) free_[at + bytes] = end;
  taken_ += bytes;
  return at;
}

void AddressSpace::give_back(std::size_t begin, std::size_t bytes) {
  taken_ -= bytes;
  std::size_t end = begin + bytes;
  const auto after = free_.lower_bound(begin);
  if (after != free_.end() && after->first == end) {
    end = after->second;
    free_.erase(after);
  }
  const auto behind = free_.lower_bound(begin);
  if (behind != free_.begin() && std::prev(behind)->second == begin)
    std::prev(behind)->second = end;
  else
    free_[begin] = end;
}

}  // namespace muster::comm
