#pragma once
// Ranks that do the same, seen from where they are, at the same time: a schedule that is alike but
// for a rotation of the ranks, on hosts that the rotation moves onto each other, is played for the
// first few ranks only, and they stand for all others.

#include <cstdint>
#include <limits>
#include <vector>

#include "muster/comm/cost.h"
#include "muster/comm/schedule.h"
#include "muster/comm/topology.h"

namespace muster::comm {

class Fold {
 public:
  // Ranks 0 … ranks-1 are played; rank r + ranks does what rank r does.
  Fold(Topology topology, std::int32_t ranks);

  const Topology& topology() const noexcept { return topology_; }
  std::int32_t ranks() const noexcept { return ranks_; }
  std::int32_t played(std::int32_t rank) const noexcept {
    return rank % ranks_;
  }  // who stands for it

  // One of the two is played. Equal for what is the same message.
  std::uint64_t channel(std::int32_t from, std::int32_t to) const noexcept {
    const std::int32_t size = topology_.size();
    const auto distance = static_cast<std::uint64_t>((to - from + size) % size);
    return (distance << 32) | static_cast<std::uint32_t>(played(to));
  }

  // The way out of a played rank's host, which it shares: with other played ranks, and with as many
  // that it stands for, itself included.
  std::int32_t port(std::int32_t rank) const noexcept { return ports_[index(rank)]; }
  std::int32_t ports() const noexcept { return port_count_; }
  double sharers(std::int32_t rank) const noexcept { return sharers_[index(rank)]; }
  // Played ranks meet in a port, so that it matters who comes first.
  bool shares_ports() const noexcept { return topology_.hosts() > 1 && port_count_ < ranks_; }

 private:
  static std::size_t index(std::int32_t rank) noexcept { return static_cast<std::size_t>(rank); }

  Topology topology_;
  std::int32_t ranks_;
  std::vector<std::int32_t> ports_;
  std::int32_t port_count_ = 0;
  std::vector<double> sharers_;
};

Fold fold_of(Collective::Kind kind, const Method& method, const Topology& topology);

// What price() finds where these ranks are played; infinity as soon as it is more than `limit`.
double price_folded(const Collective& collective, const Method& method, const Fold& fold,
                    const CostTable& costs, double limit = std::numeric_limits<double>::infinity());

}  // namespace muster::comm
