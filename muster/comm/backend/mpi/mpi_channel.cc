#include "muster/comm/backend/mpi/mpi_channel.h"

#include <fmt/format.h>

#include <cstring>

#include "muster/base/check.h"

namespace muster::comm {
namespace {

constexpr std::size_t kFrameBegin = sizeof(MpiEnvelope);
constexpr std::size_t kPayloadBegin = kFrameBegin + net::kHeaderBytes;

}  // namespace

void MpiShared::tell(int rank, MpiEnvelope::Kind kind, std::uint32_t to, std::uint32_t from) {
  const MpiEnvelope envelope{kind, to, from, 0, policy.job};
  auto message = messages->memory().take(sizeof(envelope));
  std::memcpy(message.bytes().data(), &envelope, sizeof(envelope));
  messages->send(rank, std::move(message), [](const Status&) {});
}

MpiChannel::MpiChannel(MpiShared& shared, std::uint32_t own, MpiPeer peer)
    : shared_(shared), own_(own), peer_(std::move(peer)), policy_(shared.policy) {}

// ---- receiving

void MpiChannel::start(std::shared_ptr<net::Receiver> receiver) {
  if (closed_) return;
  MUSTER_CHECK(!receiver_, "a connection is started once");
  receiver_ = std::move(receiver);
  read();
}

void MpiChannel::arrive(MpiMemory::Piece message) {
  if (closed_) return shared_.messages->memory().give_back(std::move(message));
  waiting_.push_back(std::move(message));
  read();
}

void MpiChannel::peer_closed() {
  ended_ = lost("it closed the connection");
  read();
}

void MpiChannel::read() {
  const auto self = shared_from_this();
  while (receiver_ && !closed_ && !paused_ && !waiting_.empty())
    if (!begin_frame()) return;
  if (receiver_ && !closed_ && !paused_ && ended_) shut(*ended_);
}

bool MpiChannel::begin_frame() {
  const auto bytes = waiting_.front().bytes();
  const auto header = bytes.size() < kPayloadBegin
                          ? fail(ErrorCode::kCorrupt, "[comm/mpi] a frame without a header")
                          : net::decode_header(bytes.subspan<kFrameBegin, net::kHeaderBytes>());
  const bool whole = header && header->length == bytes.size() - kPayloadBegin;
  if (!whole) {
    ++shared_.counters.malformed;
    refuse(header ? fail(ErrorCode::kCorrupt, "[comm/mpi] a frame of another length than it says")
                  : header.error());
    return false;
  }
  if (const auto checked = net::check_frame(*header, policy_); !checked) {
    const bool stale = checked.error().code == ErrorCode::kStale;
    ++(stale                        ? shared_.counters.stale
       : header->job != policy_.job ? shared_.counters.wrong_job
                                    : shared_.counters.oversized);
    if (!stale) {
      refuse(checked.error());
      return false;
    }
    shared_.messages->memory().give_back(std::move(waiting_.front()));
    waiting_.pop_front();
    return true;
  }
  ++shared_.counters.frames;
  header_ = *header;
  const auto place = std::shared_ptr(receiver_)->on_header(header_);
  if (closed_) return false;
  if (!place) {
    refuse(place.error());
    return false;
  }
  if (!*place) {
    paused_ = true;
    return false;
  }
  return end_frame(**place);
}

bool MpiChannel::end_frame(std::span<std::byte> place) {
  MUSTER_CHECK(place.size() == header_.length, "exactly the payload's bytes");
  MpiMemory::Piece message = std::move(waiting_.front());
  waiting_.pop_front();
  const auto payload = message.bytes().subspan(kPayloadBegin);
  if (!payload.empty()) std::memcpy(place.data(), payload.data(), payload.size());
  shared_.messages->memory().give_back(std::move(message));
  std::shared_ptr(receiver_)->on_frame(header_);
  return !closed_;
}

void MpiChannel::receive_into(std::span<std::byte> destination) {
  if (closed_) return;
  MUSTER_CHECK(paused_, "receive_into answers on_header");
  paused_ = false;
  if (end_frame(destination)) read();
}

// ---- sending

void MpiChannel::send(MpiMemory::Piece message, net::SendDone done) {
  if (closed_) {
    if (done) done(fail(ErrorCode::kPeerLost, "[net/send] the connection is closed"));
    return;
  }
  const std::uint64_t number = ++sent_;
  leaving_.emplace(number, std::move(done));
  shared_.messages->send(peer_.rank, std::move(message),
                         [weak = weak_from_this(), number](const Status& status) {
                           if (const auto self = weak.lock()) self->left(number, status);
                         });
}

void MpiChannel::left(std::uint64_t number, const Status& status) {
  if (const auto found = leaving_.extract(number); found && found.mapped()) found.mapped()(status);
  if (!finishing_ || closed_ || !leaving_.empty()) return;
  shut(fail(ErrorCode::kCancelled, "[net/close] finished as asked: everything was sent"));
}

// ---- ending

Error MpiChannel::lost(std::string_view reason) const {
  return fail(ErrorCode::kPeerLost,
              fmt::format("[comm/mpi] lost {}: {}", net::to_string(peer_.address), reason));
}

void MpiChannel::refuse(const Error& why) {
  shared_.log->warn("[comm/mpi] closing the connection to {}: {}", net::to_string(peer_.address),
                    why.message);
  shut(why);
}

void MpiChannel::finish(Deadline deadline) {
  if (closed_) return;
  finishing_ = true;
  finish_timer_ = shared_.loop->call_at(deadline.at(), [weak = weak_from_this()] {
    if (const auto late = weak.lock())
      late->shut(
          fail(ErrorCode::kTimeout, fmt::format("[net/close] {} did not take everything in time",
                                                net::to_string(late->peer_.address))));
  });
  left(0, ok());
}

void MpiChannel::drop() {
  receiver_ = nullptr;
  if (!finishing_)
    shut(fail(ErrorCode::kCancelled, "[net/send] the connection was dropped by its owner"));
}

// What MPI has begun to send goes on, out of memory of its own.
void MpiChannel::shut(const Error& why) {
  if (std::exchange(closed_, true)) return;
  const auto self = shared_from_this();
  shared_.channels.erase(own_);
  shared_.tell(peer_.rank, MpiEnvelope::kClose, peer_.channel, own_);
  for (MpiMemory::Piece& message : waiting_)
    shared_.messages->memory().give_back(std::move(message));
  waiting_.clear();
  finish_timer_ = nullptr;
  for (const auto& [number, done] : std::exchange(leaving_, {}))
    if (done) done(why);
  if (const auto receiver = std::exchange(receiver_, nullptr)) receiver->on_close(why);
}

}  // namespace muster::comm
