#include "muster/comm/backend/native/shared_messages.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace muster::comm {
namespace {

// Of a parcel that is full.
std::uint32_t mark_of(Rank receiver) noexcept {
  return static_cast<std::uint32_t>(to_int(receiver)) + 1;
}

}  // namespace

// One with enough room behind it, else the first empty one, given more room; none: nullptr.
Result<Parcel*> SharedMessages::empty_parcel(std::size_t bytes) {
  auto& parcels = group_->mine().parcels;
  std::size_t chosen = kParcels;
  for (std::size_t i = 0; i < kParcels; ++i) {
    if (parcels[i].full.load(std::memory_order_acquire) != 0) continue;
    if (chosen == kParcels) chosen = i;
    if (room_[i] < bytes) continue;
    chosen = i;
    break;
  }
  if (chosen == kParcels) return nullptr;
  if (room_[chosen] < bytes) {
    const std::size_t room = std::bit_ceil(bytes);
    MUSTER_ASSIGN(parcels[chosen].offset, group_->reserve(room));
    room_[chosen] = room;
  }
  return &parcels[chosen];
}

Result<bool> SharedMessages::try_send(const Send& send) {
  if (auto stopped = group_->trouble()) return *stopped;
  const auto bytes = send.tensor.bytes;
  MUSTER_ASSIGN(Parcel * parcel, empty_parcel(bytes.size()));
  if (parcel == nullptr) {
    if (auto lost = group_->gone(send.to)) return *lost;
    return false;
  }
  if (!bytes.empty())
    std::memcpy(group_->memory(group_->group().rank) + parcel->offset, bytes.data(), bytes.size());
  parcel->tag = send.tag;
  parcel->number = sent_[{send.to, send.tag}]++;
  parcel->bytes = bytes.size();
  parcel->full.store(mark_of(send.to), std::memory_order_release);
  group_->ring(send.to);
  return true;
}

Result<bool> SharedMessages::try_recv(const Recv& recv) {
  if (auto stopped = group_->trouble()) return *stopped;
  const auto lost = group_->gone(recv.from);  // asked first: what it sent before is there by now
  std::uint64_t& number = received_[{recv.from, recv.tag}];
  for (Parcel& parcel : group_->control(recv.from).parcels) {
    if (parcel.full.load(std::memory_order_acquire) != mark_of(group_->group().rank)) continue;
    if (parcel.tag != recv.tag || parcel.number != number) continue;
    const auto into = recv.tensor.bytes;
    const bool fits = parcel.bytes == into.size();
    if (fits && !into.empty())
      std::memcpy(into.data(), group_->memory(recv.from) + parcel.offset, into.size());
    const std::uint64_t length = parcel.bytes;
    ++number;
    parcel.full.store(0, std::memory_order_release);
    group_->ring(recv.from);
    if (fits) return true;
    return fail(ErrorCode::kInvalid,
                fmt::format("rank {} sent {} bytes where {} were expected", to_int(recv.from),
                            length, into.size()),
                recv.from);
  }
  if (lost) return *lost;
  return false;
}

}  // namespace muster::comm
