#pragma once
// A Connection over one TCP socket and one ByteStream, driven by readiness. All state belongs to
// the loop's thread; the public calls post themselves there.

#include <array>
#include <asio/ip/tcp.hpp>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "muster/net/asio_loop.h"
#include "muster/net/network.h"
#include "muster/net/stream.h"

namespace muster::net {

// Connections that finish, which nobody else may own any more: kept until they are over, or until
// the network goes, whose own this is. Thread-safe.
class Farewells {
 public:
  void keep(std::shared_ptr<void> connection);
  void release(const void* connection) noexcept;

 private:
  std::mutex mutex_;
  std::map<const void*, std::shared_ptr<void>> kept_;  // by address; guarded by mutex_
};

// What all connections of one network share.
struct ConnectionSettings {
  std::shared_ptr<asio::io_context> context;
  AsioLoop* loop;
  FramePolicy policy;
  std::shared_ptr<Counters> counters;
  Logger log;
  Duration unanswered = std::chrono::seconds(30);  // see NetworkOptions
  std::weak_ptr<Farewells> farewells = {};         // weak: a connection owns its settings
};

class SocketConnection : public Connection, public std::enable_shared_from_this<SocketConnection> {
 public:
  // `socket` is connected and non-blocking.
  SocketConnection(std::shared_ptr<const ConnectionSettings> settings, asio::ip::tcp::socket socket,
                   std::unique_ptr<ByteStream> stream, Address peer);
  ~SocketConnection() override;

  // Loop's thread. `done` runs once; the caller keeps the deadline and closes what takes too long.
  void handshake(std::function<void(const Status&)> done);

  void start(std::shared_ptr<Receiver> receiver) override;
  void send(const FrameHeader& header, std::vector<std::span<const std::byte>> pieces,
            SendDone done) override;
  void receive_into(std::span<std::byte> destination) override;
  void refuse_before(Generation oldest) override;
  void close(Error why) noexcept override;
  void finish(Deadline deadline) override;
  const Address& peer() const noexcept override { return peer_; }

 private:
  struct Outgoing {
    FrameHeader header;
    std::vector<std::span<const std::byte>> pieces;
    SendDone done;
  };

  // Runs `step` on the loop's thread, unless this is gone by then.
  void post(std::function<void(SocketConnection&)> step);
  void wait(asio::ip::tcp::socket::wait_type what);

  bool is_unanswered();  // what was sent, for so long that its host must be gone
  void write_some();
  Io write_frame();  // the first of the queue
  void begin_frame();
  Io write_bytes(std::span<const std::byte>& bytes);
  void flush_output();
  void fail_writing(const Error& why);

  void begin_finish(Deadline deadline);
  void linger();
  void read_out();

  void read_some();
  bool read_step();  // false: wait, or over
  bool on_header_complete();
  bool place_payload(const FrameHeader& header);
  bool on_payload_complete();
  std::span<std::byte> read_target() noexcept;

  void shut(const Error& why);
  void release_self() noexcept;
  Error lost(const std::string& reason) const;
  void refuse(const Error& why);

  std::shared_ptr<const ConnectionSettings> settings_;
  asio::ip::tcp::socket socket_;
  std::unique_ptr<ByteStream> stream_;
  Address peer_;
  FramePolicy policy_;
  std::shared_ptr<Receiver> receiver_;
  std::function<void(const Status&)> on_handshake_;
  bool closed_ = false;
  bool waits_read_ = false;
  bool waits_write_ = false;
  bool flushed_ = true;
  bool finishing_ = false;
  bool lingering_ = false;  // everything was written; what comes is not for anybody any more
  std::optional<Error> write_failure_;  // nothing is sent any more; what has come is still read
  Registration finish_timer_;

  std::deque<Outgoing> outgoing_;
  bool frame_begun_ = false;
  std::vector<std::byte> head_;  // header and the first bytes of the payload, as one record
  std::span<const std::byte> head_left_;
  std::size_t piece_ = 0;  // of the first frame, what follows the head
  std::span<const std::byte> piece_left_;

  enum class Reading : std::uint8_t { kHeader, kPayload, kSkip, kPaused };
  Reading reading_ = Reading::kHeader;
  std::array<std::byte, kHeaderBytes> header_bytes_{};
  std::size_t header_filled_ = 0;
  FrameHeader header_;
  std::span<std::byte> payload_left_;
  std::uint64_t skip_left_ = 0;
};

}  // namespace muster::net
