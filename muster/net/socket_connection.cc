#include "muster/net/socket_connection.h"

#include <fmt/format.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <asio/post.hpp>
#include <cstring>

#include "muster/base/check.h"
#include "muster/net/log_often.h"

namespace muster::net {
namespace {

// Other connections of the loop get their turn after so much of one.
constexpr int kStepsPerTurn = 64;
// One TLS record: small frames go out as one, header and payload together.
constexpr std::size_t kHeadBytes = 16 * 1024;

std::uint64_t total(const std::vector<std::span<const std::byte>>& pieces) {
  std::uint64_t bytes = 0;
  for (const auto& piece : pieces) bytes += piece.size();
  return bytes;
}

}  // namespace

void Farewells::keep(std::shared_ptr<void> connection) {
  const void* const at = connection.get();
  const std::lock_guard lock(mutex_);
  kept_.insert_or_assign(at, std::move(connection));
}

void Farewells::release(const void* connection) noexcept {
  std::shared_ptr<void> last;  // goes after the lock: what it owns may come back to this
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(connection);
  if (found == kept_.end()) return;
  last = std::move(found->second);
  kept_.erase(found);
}

void Connection::send(const FrameHeader& header, std::vector<std::byte> payload) {
  auto kept = std::make_shared<std::vector<std::byte>>(std::move(payload));
  std::vector<std::span<const std::byte>> pieces{*kept};
  send(header, std::move(pieces), [kept](const Status&) {});
}

SocketConnection::SocketConnection(std::shared_ptr<const ConnectionSettings> settings,
                                   asio::ip::tcp::socket socket, std::unique_ptr<ByteStream> stream,
                                   Address peer)
    : settings_(std::move(settings)),
      socket_(std::move(socket)),
      stream_(std::move(stream)),
      peer_(std::move(peer)),
      policy_(settings_->policy) {
  head_.reserve(kHeadBytes);
}

SocketConnection::~SocketConnection() {
  if (!closed_) stream_->say_goodbye();
  if (outgoing_.empty()) return;
  asio::post(*settings_->context, [waiting = std::move(outgoing_)] {
    const Status dropped =
        fail(ErrorCode::kCancelled, "[net/send] the connection was dropped by its owner");
    for (const auto& frame : waiting)
      if (frame.done) frame.done(dropped);
  });
}

void SocketConnection::post(std::function<void(SocketConnection&)> step) {
  asio::post(*settings_->context, [weak = weak_from_this(), step = std::move(step)] {
    const auto self = weak.lock();
    if (self && !self->closed_) step(*self);
  });
}

void SocketConnection::wait(asio::ip::tcp::socket::wait_type what) {
  const bool reads = what == asio::ip::tcp::socket::wait_read;
  bool& waiting = reads ? waits_read_ : waits_write_;
  if (waiting) return;
  waiting = true;
  socket_.async_wait(what, [weak = weak_from_this(), reads](const asio::error_code& error) {
    const auto self = weak.lock();
    if (!self || self->closed_ || error) return;
    (reads ? self->waits_read_ : self->waits_write_) = false;
    if (self->on_handshake_) return self->handshake(std::move(self->on_handshake_));
    if (self->lingering_) return self->read_out();
    reads ? self->read_some() : self->write_some();
  });
}

void SocketConnection::handshake(std::function<void(const Status&)> done) {
  const auto result = stream_->handshake();
  if (result.state == Io::kWantRead || result.state == Io::kWantWrite) {
    on_handshake_ = std::move(done);
    return wait(result.state == Io::kWantRead ? asio::ip::tcp::socket::wait_read
                                              : asio::ip::tcp::socket::wait_write);
  }
  on_handshake_ = nullptr;
  if (result.state == Io::kDone) return done(ok());
  if (result.refused)
    return done(
        fail(ErrorCode::kInvalid,
             fmt::format("[net/handshake] {} is not let in: {}; whoever belongs to this job "
                         "shows its certificate",
                         to_string(peer_), result.reason)));
  // That says nothing about who it is: it may have died, or what stands between them lets go.
  done(fail(ErrorCode::kPeerLost,
            fmt::format("[net/handshake] lost {} before both had shown the job's certificate: {}",
                        to_string(peer_),
                        result.state == Io::kClosed ? "it closed the connection" : result.reason)));
}

void SocketConnection::start(std::shared_ptr<Receiver> receiver) {
  post([receiver = std::move(receiver)](SocketConnection& self) {
    MUSTER_CHECK(!self.receiver_, "a connection is started once");
    self.receiver_ = receiver;
    self.read_some();
  });
}

// ---- sending

void SocketConnection::send(const FrameHeader& header,
                            std::vector<std::span<const std::byte>> pieces, SendDone done) {
  Outgoing frame{header, std::move(pieces), std::move(done)};
  frame.header.job = policy_.job;
  frame.header.length = total(frame.pieces);
  asio::post(*settings_->context, [weak = weak_from_this(), frame = std::move(frame)]() mutable {
    const auto self = weak.lock();
    if (!self || self->closed_ || self->lingering_ || self->write_failure_) {
      if (frame.done) frame.done(fail(ErrorCode::kPeerLost, "[net/send] the connection is closed"));
      return;
    }
    if (frame.header.kind == kControlFrame && self->is_unanswered()) {
      const Error why = self->lost("its host has answered nothing any more, though asked again");
      if (frame.done) frame.done(why);
      return self->shut(why);
    }
    self->outgoing_.push_back(std::move(frame));
    if (!self->waits_write_ && self->outgoing_.size() == 1) self->write_some();
  });
}

// The kernel sends no keepalive while it repeats what was not acknowledged, and repeats it for a
// quarter of an hour. A host whose process is stopped does acknowledge, so it is not this:
// TCP_USER_TIMEOUT would count the closed window of such a one as well.
bool SocketConnection::is_unanswered() {
  constexpr int kRepeats = 3;
  tcp_info now{};
  socklen_t size = sizeof now;
  if (::getsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_INFO, &now, &size) != 0) return false;
  const bool asks_in_vain = now.tcpi_retransmits >= kRepeats || now.tcpi_probes >= kRepeats;
  return asks_in_vain && std::chrono::milliseconds(now.tcpi_last_ack_recv) >= settings_->unanswered;
}

void SocketConnection::write_some() {
  for (int step = 0; step < kStepsPerTurn; ++step) {
    if (outgoing_.empty()) return flush_output();
    const Io state = write_frame();
    if (closed_ || write_failure_) return;
    if (state == Io::kWantWrite) return wait(asio::ip::tcp::socket::wait_write);
  }
  post([](SocketConnection& self) {
    if (!self.waits_write_) self.write_some();
  });
}

void SocketConnection::begin_frame() {
  const auto& frame = outgoing_.front();
  const auto header = encode_header(frame.header);
  head_.assign(header.begin(), header.end());
  piece_ = 0;
  piece_left_ = {};
  while (piece_ < frame.pieces.size() && head_.size() < kHeadBytes) {
    const auto& piece = frame.pieces[piece_++];
    const std::size_t taken = std::min(piece.size(), kHeadBytes - head_.size());
    head_.insert(head_.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(taken));
    piece_left_ = piece.subspan(taken);
  }
  head_left_ = head_;
  frame_begun_ = true;
}

Io SocketConnection::write_frame() {
  if (!frame_begun_) begin_frame();
  if (!head_left_.empty()) return write_bytes(head_left_);
  if (!piece_left_.empty()) return write_bytes(piece_left_);
  const auto& pieces = outgoing_.front().pieces;
  if (piece_ < pieces.size()) {
    piece_left_ = pieces[piece_++];
    return Io::kDone;
  }
  const auto done = std::move(outgoing_.front().done);
  outgoing_.pop_front();
  frame_begun_ = false;
  if (done) done(ok());
  return Io::kDone;
}

Io SocketConnection::write_bytes(std::span<const std::byte>& bytes) {
  const auto result = stream_->write(bytes);
  if (result.state == Io::kDone) {
    bytes = bytes.subspan(result.bytes);
    flushed_ = false;
  } else if (result.state == Io::kClosed || result.state == Io::kFailed) {
    fail_writing(lost(result.reason));
  }
  return result.state == Io::kWantRead ? Io::kWantWrite : result.state;
}

void SocketConnection::flush_output() {
  if (!flushed_) {
    const auto result = stream_->flush();
    if (result.state == Io::kWantWrite) return wait(asio::ip::tcp::socket::wait_write);
    if (result.state != Io::kDone) return fail_writing(lost(result.reason));
    flushed_ = true;
  }
  if (finishing_) linger();
}

// The peer may have said why before it closed. What has arrived by now is read first.
void SocketConnection::fail_writing(const Error& why) {
  if (finishing_) return shut(why);
  write_failure_ = why;
  for (const auto& frame : std::exchange(outgoing_, {}))
    if (frame.done) frame.done(why);
  if (reading_ != Reading::kPaused) read_some();
}

// ---- receiving

std::span<std::byte> SocketConnection::read_target() noexcept {
  thread_local std::array<std::byte, 16 * 1024> waste;  // of frames that are skipped
  switch (reading_) {
    case Reading::kHeader:
      return std::span(header_bytes_).subspan(header_filled_);
    case Reading::kPayload:
      return payload_left_;
    default:
      return std::span(waste).first(std::min<std::uint64_t>(waste.size(), skip_left_));
  }
}

void SocketConnection::read_some() {
  if (!receiver_) return;
  for (int step = 0; step < kStepsPerTurn; ++step)
    if (closed_ || reading_ == Reading::kPaused || !read_step()) return;
  post([](SocketConnection& self) {
    if (!self.waits_read_) self.read_some();
  });
}

bool SocketConnection::read_step() {
  const auto result = stream_->read(read_target());
  switch (result.state) {
    case Io::kDone:
      break;
    case Io::kWantRead:
    case Io::kWantWrite:
      write_failure_ ? shut(*write_failure_) : wait(asio::ip::tcp::socket::wait_read);
      return false;
    case Io::kClosed:
      shut(lost("it closed the connection"));
      return false;
    case Io::kFailed:
      shut(lost(result.reason));
      return false;
  }
  if (reading_ == Reading::kHeader) {
    header_filled_ += result.bytes;
    return header_filled_ < kHeaderBytes || on_header_complete();
  }
  if (reading_ == Reading::kSkip) {
    skip_left_ -= result.bytes;
    if (skip_left_ == 0) reading_ = Reading::kHeader;
    return true;
  }
  payload_left_ = payload_left_.subspan(result.bytes);
  return !payload_left_.empty() || on_payload_complete();
}

bool SocketConnection::on_header_complete() {
  header_filled_ = 0;
  auto& counters = *settings_->counters;
  const auto header = decode_header(header_bytes_);
  if (!header) {
    ++counters.malformed;
    refuse(header.error());
    return false;
  }
  if (const auto checked = check_frame(*header, policy_); !checked) {
    const bool stale = checked.error().code == ErrorCode::kStale;
    if (stale)
      ++counters.stale;
    else
      ++(header->job != policy_.job ? counters.wrong_job : counters.oversized);
    if (!stale) {
      refuse(checked.error());
      return false;
    }
    log_often(*settings_->log, counters.stale, checked.error().message);
    skip_left_ = header->length;
    if (skip_left_ > 0) reading_ = Reading::kSkip;
    return true;
  }
  ++counters.frames;
  return place_payload(*header);
}

bool SocketConnection::place_payload(const FrameHeader& header) {
  header_ = header;
  const auto receiver = receiver_;
  const auto place = receiver->on_header(header);
  if (closed_) return false;
  if (!place) {
    refuse(place.error());
    return false;
  }
  if (!*place) {
    reading_ = Reading::kPaused;
    return false;
  }
  MUSTER_CHECK((*place)->size() == header.length, "on_header returns exactly the payload's bytes");
  payload_left_ = **place;
  reading_ = Reading::kPayload;
  return !payload_left_.empty() || on_payload_complete();
}

bool SocketConnection::on_payload_complete() {
  reading_ = Reading::kHeader;
  const auto receiver = receiver_;
  receiver->on_frame(header_);
  return !closed_;
}

void SocketConnection::receive_into(std::span<std::byte> destination) {
  post([destination](SocketConnection& self) {
    MUSTER_CHECK(self.reading_ == Reading::kPaused, "receive_into answers on_header");
    MUSTER_CHECK(destination.size() == self.header_.length, "exactly the payload's bytes");
    self.payload_left_ = destination;
    self.reading_ = Reading::kPayload;
    if (destination.empty() && !self.on_payload_complete()) return;
    self.read_some();
  });
}

void SocketConnection::refuse_before(Generation oldest) {
  post([oldest](SocketConnection& self) { self.policy_.oldest = oldest; });
}

// ---- ending

Error SocketConnection::lost(const std::string& reason) const {
  return fail(ErrorCode::kPeerLost,
              fmt::format("[net/connection] lost {}: {}", to_string(peer_), reason));
}

void SocketConnection::refuse(const Error& why) {
  settings_->log->warn("[net/connection] closing the connection to {}: {}", to_string(peer_),
                       why.message);
  shut(why);
}

void SocketConnection::close(Error why) noexcept {
  post([why = std::move(why)](SocketConnection& self) { self.shut(why); });
}

// Its owner may drop it right after this, and with it all that handlers of the loop, which hold it
// weakly, have yet to send.
void SocketConnection::finish(Deadline deadline) {
  if (const auto farewells = settings_->farewells.lock()) farewells->keep(shared_from_this());
  asio::post(*settings_->context, [weak = weak_from_this(), deadline] {
    if (const auto self = weak.lock()) self->begin_finish(deadline);
  });
}

void SocketConnection::begin_finish(Deadline deadline) {
  if (closed_) return release_self();
  finishing_ = true;
  finish_timer_ = settings_->loop->call_at(deadline.at(), [weak = weak_from_this()] {
    const auto late = weak.lock();
    if (late && !late->closed_)
      late->shut(fail(
          ErrorCode::kTimeout,
          fmt::format("[net/close] {} did not take everything in time", to_string(late->peer_))));
  });
  if (write_failure_) return shut(*write_failure_);
  if (outgoing_.empty()) flush_output();
}

// Whoever calls this holds it as well.
void SocketConnection::release_self() noexcept {
  if (const auto farewells = settings_->farewells.lock()) farewells->release(this);
}

// The peer may not have taken yet what was written. A socket that is closed with bytes in it that
// nobody has read answers with a reset and drops what waits in the kernel, so what comes is read
// out until the peer closes as well, or the deadline has come.
void SocketConnection::linger() {
  if (lingering_) return;
  lingering_ = true;
  const auto self = shared_from_this();
  stream_->say_goodbye();
  asio::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  if (const auto receiver = std::exchange(receiver_, nullptr))
    receiver->on_close(
        fail(ErrorCode::kCancelled, "[net/close] finished as asked: everything was sent"));
  read_out();
}

void SocketConnection::read_out() {
  thread_local std::array<std::byte, 64 * 1024> waste;
  for (int step = 0; step < kStepsPerTurn; ++step) {
    if (closed_) return;
    asio::error_code error;
    socket_.read_some(asio::buffer(waste), error);
    if (error == asio::error::would_block) return wait(asio::ip::tcp::socket::wait_read);
    if (error) return shut(lost(error.message()));
  }
  post([](SocketConnection& self) {
    if (!self.waits_read_) self.read_out();
  });
}

void SocketConnection::shut(const Error& why) {
  if (closed_) return;
  closed_ = true;
  const auto self = shared_from_this();
  stream_->say_goodbye();
  asio::error_code ignored;
  socket_.close(ignored);
  const auto waiting = std::exchange(outgoing_, {});
  for (const auto& frame : waiting)
    if (frame.done) frame.done(why);
  finish_timer_ = nullptr;
  on_handshake_ = nullptr;
  if (const auto receiver = std::exchange(receiver_, nullptr)) receiver->on_close(why);
  release_self();
}

}  // namespace muster::net
