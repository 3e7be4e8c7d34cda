#pragma once
// The seam to the network: ordered, framed streams to authenticated peers of the same job. The
// system implementation is TCP with TLS 1.3 on a Loop; the simulator brings its own. All callbacks
// run on the loop's thread and must not block.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/log.h"
#include "muster/base/result.h"
#include "muster/net/credentials.h"
#include "muster/net/frame.h"
#include "muster/net/loop.h"

namespace muster::net {

struct Address {
  std::string host;  // name or number; "0.0.0.0" or "::" listen everywhere
  std::uint16_t port = 0;
  friend bool operator==(const Address&, const Address&) = default;
};
std::string to_string(const Address& address);  // "host:port", "[::1]:port"
Result<Address> parse_address(std::string_view text);

// Who receives the frames of one connection. Called on the loop's thread only.
class Receiver {
 public:
  virtual ~Receiver() = default;

  // A frame has begun. Returns where its payload goes, exactly header.length bytes that stay valid
  // until on_frame or on_close: received into place, no copy. Nothing: not known yet; the
  // connection reads no further until Connection::receive_into(). An Error closes the connection.
  virtual Result<std::optional<std::span<std::byte>>> on_header(const FrameHeader& header) = 0;

  // The payload is complete where on_header said.
  virtual void on_frame(const FrameHeader& header) = 0;

  // The last call, exactly once; kCancelled after one's own close().
  virtual void on_close(const Error& why) = 0;
};

using SendDone = std::function<void(const Status&)>;

class Connection {  // thread-safe
 public:
  // Closes without on_close; sends that wait end in kCancelled. A receiver that owns its connection
  // must close() it, or neither is ever freed. After finish() it is not the last owner's end that
  // closes it.
  virtual ~Connection() = default;

  // Begins to read. Called once; frames that came earlier wait.
  virtual void start(std::shared_ptr<Receiver> receiver) = 0;

  // Queues one frame whose payload is `pieces` one after another; never blocks. The bytes belong to
  // the caller and stay untouched until `done`, which runs exactly once on the loop's thread (a
  // loop that has stopped runs nothing): in success when the bytes are no longer needed. job and
  // length are filled in.
  virtual void send(const FrameHeader& header, std::vector<std::span<const std::byte>> pieces,
                    SendDone done) = 0;

  // The same with bytes that the connection keeps.
  void send(const FrameHeader& header, std::vector<std::byte> payload);

  // Answers an on_header that returned nothing.
  virtual void receive_into(std::span<std::byte> destination) = 0;

  // From now on frames of generations before `oldest` are skipped, counted and logged; takes effect
  // on the loop's thread, in order with what was posted there.
  virtual void refuse_before(Generation oldest) = 0;

  // Ends it: what waits to be sent fails with `why`. Any thread, at once, idempotent.
  virtual void close(Error why) noexcept = 0;

  // Ends it after everything queued so far was handed over: on_close comes then, and the socket is
  // kept until the peer has taken it and closed, at the latest to `deadline`. The network keeps the
  // connection, and what its receiver owns, as long, so that its owner may drop it at once; a
  // network or a loop that goes before ends it there.
  virtual void finish(Deadline deadline) = 0;

  virtual const Address& peer() const noexcept = 0;
};

// Takes connections as long as it lives.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual const Address& address() const noexcept = 0;  // with the port that was given
};

using Connected = std::function<void(Result<std::shared_ptr<Connection>>)>;
using Accepted = std::function<void(std::shared_ptr<Connection>)>;

class Network {  // thread-safe
 public:
  virtual ~Network() = default;

  // `done` runs exactly once, on the loop's thread, with an authenticated connection or: kTimeout,
  // kUnavailable (nobody answers there, name unknown), kPeerLost (it broke before both had shown
  // their certificates), kInvalid (not a member of this job). A TCP connection that is refused, or
  // breaks before the other side has let this one in, is tried again until the deadline when
  // `retry` says so, less and less often.
  enum class Retry : std::uint8_t {
    kNo,
    kIfBroken,       // not where nobody listens: who did is gone
    kUntilDeadline,  // somebody may come to listen
  };
  virtual void connect(Address address, Deadline deadline, Connected done,
                       Retry retry = Retry::kNo) = 0;

  // Port 0: any free port. `accepted` gets authenticated connections only.
  virtual Result<std::unique_ptr<Listener>> listen(const Address& address, Accepted accepted) = 0;

  virtual const std::string& name() const noexcept = 0;  // what carries it: "TCP"
  virtual const Counters& counters() const noexcept = 0;
  virtual Loop& loop() const noexcept = 0;
};

struct NetworkOptions {
  bool insecure_plaintext = false;  // no TLS, no authentication: for tests; no job can ask for it
  std::uint64_t max_frame = 64u << 20;                   // bytes of payload
  Duration handshake_timeout = std::chrono::seconds(5);  // from TCP connection to authenticated
  // At once; others wait to be accepted, and the oldest is dropped for them once it has had its
  // fair time, of which members need milliseconds. Well below the usual 1,024 descriptors of a
  // process, of which every stranger takes one.
  std::size_t max_handshakes = 256;
  Duration fair_time = std::chrono::milliseconds(500);
  std::size_t write_buffer = 256 * 1024;  // bytes encrypted per system call
  // A control connection ends where nothing that is sent on it, again and again, is acknowledged
  // for so long: the host there is gone, or the way to it.
  Duration unanswered = std::chrono::seconds(30);
};

// TCP and TLS 1.3 with the job's certificate required of both sides, on the loop.
Result<std::unique_ptr<Network>> create_network(SystemLoop& loop, const Credentials& credentials,
                                                const NetworkOptions& options, Logger log);

// Blocks until connected. Not on the loop's thread.
Result<std::shared_ptr<Connection>> connect_and_wait(Network& network, const Address& address,
                                                     Deadline deadline,
                                                     Network::Retry retry = Network::Retry::kNo);

}  // namespace muster::net
