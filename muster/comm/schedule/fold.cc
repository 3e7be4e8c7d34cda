#include "muster/comm/schedule/fold.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace muster::comm {
namespace {

using Kind = Collective::Kind;

// More ranks are not played where hosts differ, in schedules of as many steps as there are ranks.
constexpr std::int32_t kMostPlayed = 64;

bool rotates(Algorithm algorithm) noexcept {
  switch (algorithm) {
    case Algorithm::kRing:
    case Algorithm::kBidirectionalRing:
    case Algorithm::kHalvingDoubling:
    case Algorithm::kDirect:
    case Algorithm::kPairwise:
    case Algorithm::kBruck:
      return true;
    default:
      return false;
  }
}

// Whether ranks at one place do the same as those at another, seen from there. In two levels the
// rotation is one of hosts.
bool rotates(Kind kind, const Method& method) noexcept {
  if (kind == Kind::kBroadcast) return false;
  return rotates(method.algorithm == Algorithm::kHierarchical ? method.outer : method.algorithm);
}

Rank behind(Rank rank, std::int32_t by, std::int32_t size) {
  return Rank{(to_int(rank) + by) % size};
}

// Whether it moves hosts onto hosts; in `levels` also in their order, and ranks to the same place.
bool is_rotation(const Topology& topology, std::int32_t by, bool levels) {
  const std::int32_t size = topology.size();
  const std::int32_t hosts = topology.hosts();
  std::vector<std::int32_t> onto(static_cast<std::size_t>(hosts), -1);
  const std::int32_t shift = topology.host_of(behind(Rank{0}, by, size));
  for (std::int32_t r = 0; r < size; ++r) {
    const Rank rank{r};
    const Rank moved = behind(rank, by, size);
    auto& host = onto[static_cast<std::size_t>(topology.host_of(rank))];
    if (host == -1) host = topology.host_of(moved);
    if (host != topology.host_of(moved)) return false;
    if (!levels) continue;
    if (topology.place_of(rank) != topology.place_of(moved)) return false;
    if ((topology.host_of(rank) + shift) % hosts != topology.host_of(moved)) return false;
  }
  return true;
}

// By how many ranks one can rotate; as many as there are: not at all.
std::int32_t smallest_rotation(const Topology& topology, bool levels) {
  const std::int32_t size = topology.size();
  for (std::int32_t by = 1; by < size; ++by)
    if (size % by == 0 && is_rotation(topology, by, levels)) return by;
  return size;
}

std::int32_t largest_host(const Topology& topology) {
  std::size_t largest = 0;
  for (std::int32_t host = 0; host < topology.hosts(); ++host)
    largest = std::max(largest, topology.members(host).size());
  return static_cast<std::int32_t>(largest);
}

}  // namespace

Fold::Fold(Topology topology, std::int32_t ranks) : topology_(std::move(topology)), ranks_(ranks) {
  // Hosts that are moved onto each other have one port.
  std::vector<std::int32_t> port_of(static_cast<std::size_t>(topology_.hosts()), -1);
  for (std::int32_t r = 0; r < ranks; ++r) {
    const std::int32_t host = topology_.host_of(Rank{r});
    if (port_of[index(host)] == -1) {
      for (std::int32_t moved = r; moved < topology_.size(); moved += ranks)
        port_of[index(topology_.host_of(Rank{moved}))] = port_count_;
      ++port_count_;
    }
    ports_.push_back(port_of[index(host)]);
    sharers_.push_back(static_cast<double>(std::ranges::count_if(
        topology_.members(host), [&](std::int32_t member) { return played(member) == r; })));
  }
}

Fold fold_of(Kind kind, const Method& method, const Topology& topology) {
  if (!rotates(kind, method)) return {topology, topology.size()};
  const bool levels = method.algorithm == Algorithm::kHierarchical;
  std::int32_t by = smallest_rotation(topology, levels);
  // Blocks that are sent from the last on to the first ones are two messages, of some ranks; in two
  // levels, of the ranks of some hosts.
  if (method.algorithm == Algorithm::kHalvingDoubling && by > 1) return {topology, topology.size()};
  const bool several_hosts = by < topology.size() && topology.host_of(Rank{by}) > 1;
  if (levels && method.outer == Algorithm::kHalvingDoubling && several_hosts) by = topology.size();
  if (by < topology.size() || by <= kMostPlayed) return {topology, by};
  const std::int32_t each = largest_host(topology);
  return {Topology::regular(topology.hosts(), each), each};
}

}  // namespace muster::comm
