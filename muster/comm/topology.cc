#include "muster/comm/topology.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "muster/base/check.h"

namespace muster::comm {

Topology::Topology(const std::vector<std::int32_t>& host_of) {
  MUSTER_CHECK(!host_of.empty(), "a group has one rank at least");
  std::map<std::int32_t, std::int32_t> numbers;
  for (std::size_t rank = 0; rank < host_of.size(); ++rank) {
    const auto fresh = static_cast<std::int32_t>(numbers.size());
    const std::int32_t host = numbers.try_emplace(host_of[rank], fresh).first->second;
    if (host == fresh) members_.emplace_back();
    auto& members = members_[static_cast<std::size_t>(host)];
    host_of_.push_back(host);
    place_of_.push_back(static_cast<std::int32_t>(members.size()));
    members.push_back(static_cast<std::int32_t>(rank));
  }
  const auto fewest =
      std::ranges::min_element(members_, {}, [](const auto& m) { return m.size(); });
  columns_.resize(fewest->size());
  for (std::size_t place = 0; place < columns_.size(); ++place)
    for (const auto& members : members_) columns_[place].push_back(members[place]);
}

Topology Topology::of_names(const std::vector<std::string>& names) {
  std::map<std::string, std::int32_t> numbers;
  std::vector<std::int32_t> host_of;
  std::int32_t next = 0;
  for (const std::string& name : names) {
    if (name.empty()) {
      host_of.push_back(next++);
      continue;
    }
    const auto [entry, fresh] = numbers.try_emplace(name, next);
    if (fresh) ++next;
    host_of.push_back(entry->second);
  }
  return Topology(host_of);
}

Topology Topology::apart(std::int32_t size) {
  std::vector<std::int32_t> host_of(static_cast<std::size_t>(size));
  std::iota(host_of.begin(), host_of.end(), 0);
  return Topology(host_of);
}

Topology Topology::one_host(std::int32_t size) {
  return Topology(std::vector<std::int32_t>(static_cast<std::size_t>(size), 0));
}

Topology Topology::regular(std::int32_t hosts, std::int32_t ranks_each) {
  std::vector<std::int32_t> host_of;
  for (std::int32_t host = 0; host < hosts; ++host)
    host_of.insert(host_of.end(), static_cast<std::size_t>(ranks_each), host);
  return Topology(host_of);
}

}  // namespace muster::comm
