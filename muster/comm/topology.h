#pragma once
// Which ranks of a group share a host: what schedules in two levels are made from, and prices of
// schedules. A plain value, the same on every rank. Thread-safe.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/base/ids.h"

namespace muster::comm {

class Topology {
 public:
  // host_of[r]: the host of rank r, in any numbers; hosts are counted anew in order of their lowest
  // rank.
  explicit Topology(const std::vector<std::int32_t>& host_of);
  // Of names: equal ones are one host, an empty one is a host of its own.
  static Topology of_names(const std::vector<std::string>& names);
  static Topology apart(std::int32_t size);     // every rank on a host of its own
  static Topology one_host(std::int32_t size);  // all on one
  static Topology regular(std::int32_t hosts, std::int32_t ranks_each);  // neighbours together

  std::int32_t size() const noexcept { return static_cast<std::int32_t>(host_of_.size()); }
  std::int32_t hosts() const noexcept { return static_cast<std::int32_t>(members_.size()); }
  std::int32_t host_of(Rank rank) const noexcept { return host_of_[index(rank)]; }
  // Its place among the ranks of its host, which are in order.
  std::int32_t place_of(Rank rank) const noexcept { return place_of_[index(rank)]; }
  std::span<const std::int32_t> members(std::int32_t host) const noexcept {
    return members_[static_cast<std::size_t>(host)];
  }
  bool share_host(Rank a, Rank b) const noexcept { return host_of(a) == host_of(b); }
  // Some hosts have several ranks, and there are several hosts.
  bool has_two_levels() const noexcept { return hosts() > 1 && hosts() < size(); }

  // Columns: the ranks with the same place on every host; as many as the host with the fewest has.
  std::int32_t columns() const noexcept { return static_cast<std::int32_t>(columns_.size()); }
  std::span<const std::int32_t> column(std::int32_t place) const noexcept {
    return columns_[static_cast<std::size_t>(place)];
  }

  friend bool operator==(const Topology& a, const Topology& b) { return a.host_of_ == b.host_of_; }

 private:
  static std::size_t index(Rank rank) noexcept { return static_cast<std::size_t>(to_int(rank)); }

  std::vector<std::int32_t> host_of_;
  std::vector<std::int32_t> place_of_;
  std::vector<std::vector<std::int32_t>> members_;
  std::vector<std::vector<std::int32_t>> columns_;
};

}  // namespace muster::comm
