#pragma once
// Messages between two ranks of one host: parcels in the sender's memory, found by the receiver.
// Used by one thread.

#include <array>
#include <map>
#include <memory>

#include "muster/comm/backend/native/shared_group.h"

namespace muster::comm {

class SharedMessages {
 public:
  explicit SharedMessages(std::shared_ptr<SharedGroup> group) : group_(std::move(group)) {}

  Result<bool> try_send(const Send& send);  // false: all parcels are under way
  Result<bool> try_recv(const Recv& recv);  // false: not there yet

 private:
  using Stream = std::pair<Rank, std::uint32_t>;  // peer and tag
  Result<Parcel*> empty_parcel(std::size_t bytes);

  const std::shared_ptr<SharedGroup> group_;
  std::array<std::size_t, kParcels> room_{};  // bytes reserved behind each of my parcels
  std::map<Stream, std::uint64_t> sent_;
  std::map<Stream, std::uint64_t> received_;
};

}  // namespace muster::comm
