#include "muster/net/network.h"

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <deque>
#include <map>

#include "muster/base/awaited.h"
#include "muster/base/backoff.h"
#include "muster/net/log_often.h"
#include "muster/net/reach.h"
#include "muster/net/socket_connection.h"
#include "muster/net/socket_options.h"

namespace muster::net {
namespace {

using Tcp = asio::ip::tcp;
using asio::error_code;

constexpr Duration kFirstRetry = std::chrono::milliseconds(10);
constexpr Duration kLongestRetry = std::chrono::milliseconds(250);  // of who finds nobody there
// Of who was let go in a handshake: so is whoever waits longest where very many come at once.
constexpr Duration kLongestRetryOfMany = std::chrono::seconds(2);

Address address_of(const Tcp::endpoint& endpoint) {
  return {endpoint.address().to_string(), endpoint.port()};
}

// What connects, listeners and the network share; on the loop's thread unless said otherwise.
class Core : public std::enable_shared_from_this<Core> {
 public:
  Core(AsioLoop& loop, std::shared_ptr<TlsContext> tls, NetworkOptions options,
       std::shared_ptr<const ConnectionSettings> settings, std::shared_ptr<Farewells> farewells)
      : loop_(loop),
        tls_(std::move(tls)),
        options_(options),
        settings_(std::move(settings)),
        farewells_(std::move(farewells)) {}

  AsioLoop& loop() noexcept { return loop_; }
  const NetworkOptions& options() const noexcept { return options_; }
  Counters& counters() noexcept { return *settings_->counters; }
  spdlog::logger& log() noexcept { return *settings_->log; }

  // Makes a connection of a socket: authenticated by `deadline`, or an Error.
  void authenticate(Tcp::socket socket, Side side, TimePoint deadline, Connected done);

  // What is under way is kept alive here, and only here.
  std::uint64_t keep(std::shared_ptr<void> attempt) {
    attempts_.emplace(++last_id_, std::move(attempt));
    return last_id_;
  }
  void release(std::uint64_t id) { attempts_.erase(id); }

  // Once another stranger may be let in, be it at once. The others wait in the system's queue.
  void when_there_is_room(std::function<void()> then) {
    if (strangers_ < options_.max_handshakes) return then();
    waiting_.push_back(std::move(then));
    make_room_in_time();
  }

 private:
  struct Handshake {
    std::shared_ptr<SocketConnection> connection;
    Registration timer;
    Side side;
    TimePoint begun;
    Connected done;
  };
  using Handshakes = std::map<std::uint64_t, Handshake>;

  void end_handshake(std::uint64_t id, const Status& status);
  Handshakes::iterator oldest_stranger();
  void make_room_in_time();
  void drop_oldest_stranger();
  void let_in_next();

  AsioLoop& loop_;
  std::shared_ptr<TlsContext> tls_;  // none: plain text
  NetworkOptions options_;
  std::shared_ptr<const ConnectionSettings> settings_;
  std::shared_ptr<Farewells> farewells_;
  std::uint64_t last_id_ = 0;
  Handshakes handshakes_;                      // by age
  std::size_t strangers_ = 0;                  // of them: that came here
  std::deque<std::function<void()>> waiting_;  // for room
  Registration room_timer_;
  std::map<std::uint64_t, std::shared_ptr<void>> attempts_;
};

void Core::authenticate(Tcp::socket socket, Side side, TimePoint deadline, Connected done) {
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (!error) error = prepare(socket);
  if (error)
    return done(fail(ErrorCode::kPeerLost,
                     fmt::format("[net/handshake] lost a new connection: {}", error.message())));
  std::unique_ptr<ByteStream> stream;
  if (tls_) {
    auto created = tls_->create_stream(socket.native_handle(), side);
    if (!created) return done(created.error());
    stream = std::move(*created);
  } else {
    stream = create_plain_stream(socket.native_handle());
  }
  const auto connection = std::make_shared<SocketConnection>(
      settings_, std::move(socket), std::move(stream), address_of(endpoint));
  const auto id = ++last_id_;
  auto timer = loop_.call_at(deadline, [weak = weak_from_this(), id, connection] {
    if (const auto core = weak.lock())
      core->end_handshake(id, fail(ErrorCode::kTimeout,
                                   fmt::format("[net/handshake] {} did not identify itself in time",
                                               to_string(connection->peer()))));
  });
  if (side == Side::kServer) ++strangers_;
  handshakes_.emplace(
      id, Handshake{connection, std::move(timer), side, loop_.clock().now(), std::move(done)});
  connection->handshake([weak = weak_from_this(), id](const Status& status) {
    if (const auto core = weak.lock()) core->end_handshake(id, status);
  });
}

void Core::end_handshake(std::uint64_t id, const Status& status) {
  const auto found = handshakes_.find(id);
  if (found == handshakes_.end()) return;
  const Handshake ended = std::move(found->second);
  handshakes_.erase(found);
  const bool is_stranger = ended.side == Side::kServer;
  if (is_stranger) --strangers_;
  if (status) {
    ended.done(std::shared_ptr<Connection>(ended.connection));
  } else {
    if (is_stranger) log_often(log(), ++counters().handshakes_refused, status.error().message);
    ended.connection->close(status.error());
    ended.done(status.error());
  }
  if (is_stranger) let_in_next();
}

void Core::let_in_next() {
  room_timer_ = nullptr;
  while (!waiting_.empty() && strangers_ < options_.max_handshakes) {
    const auto then = std::move(waiting_.front());
    waiting_.pop_front();
    then();
  }
  if (!waiting_.empty()) make_room_in_time();
}

Core::Handshakes::iterator Core::oldest_stranger() {
  return std::ranges::find_if(handshakes_,
                              [](const auto& entry) { return entry.second.side == Side::kServer; });
}

void Core::make_room_in_time() {
  const auto oldest = oldest_stranger();
  if (oldest == handshakes_.end()) return;
  room_timer_ = loop_.call_at(oldest->second.begun + options_.fair_time, [weak = weak_from_this()] {
    if (const auto core = weak.lock()) core->drop_oldest_stranger();
  });
}

// Who has waited longest among so many is least likely to be a member.
void Core::drop_oldest_stranger() {
  const auto oldest = oldest_stranger();
  if (oldest == handshakes_.end()) return;
  const std::string peer = to_string(oldest->second.connection->peer());
  end_handshake(oldest->first,
                fail(ErrorCode::kUnavailable,
                     fmt::format("[net/handshake] too many connections that do not identify "
                                 "themselves; dropped the oldest, {}",
                                 peer)));
}

// One connect(): resolve, try every address, again if asked, authenticate.
class Attempt : public std::enable_shared_from_this<Attempt> {
 public:
  Attempt(std::weak_ptr<Core> core, AsioLoop& loop, Address address, Deadline deadline,
          Network::Retry retry, Connected done)
      : core_(std::move(core)),
        loop_(loop),
        address_(std::move(address)),
        deadline_(deadline),
        retry_(retry),
        done_(std::move(done)),
        resolver_(*loop.context()),
        socket_(*loop.context()) {}

  void start(std::uint64_t id) {
    id_ = id;
    timer_ = loop_.call_at(deadline_.at(), [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->time_out();
    });
    resolve();
  }

 private:
  void resolve();
  void try_next();
  void try_later(const std::string& reason);
  void try_after(Duration pause);
  void connected();
  void authenticated(Result<std::shared_ptr<Connection>> result);
  void time_out();
  std::string why_late() const;
  void finish(Result<std::shared_ptr<Connection>> result);

  std::weak_ptr<Core> core_;
  AsioLoop& loop_;
  Address address_;
  Deadline deadline_;
  Network::Retry retry_;
  Connected done_;
  Tcp::resolver resolver_;
  Tcp::socket socket_;
  std::vector<Tcp::endpoint> endpoints_;
  std::size_t next_ = 0;
  std::string last_reason_;  // of what was refused; empty: nothing was
  bool reached_ = false;     // a TCP connection was made
  Backoff refused_{kFirstRetry, kLongestRetry};
  Backoff broke_{kFirstRetry, kLongestRetryOfMany};
  Registration timer_;
  Registration retry_timer_;
  std::uint64_t id_ = 0;
};

void Attempt::resolve() {
  error_code not_numeric;
  const auto number = asio::ip::make_address(address_.host, not_numeric);
  if (!not_numeric) {
    endpoints_ = {Tcp::endpoint(number, address_.port)};
    return try_next();
  }
  resolver_.async_resolve(
      address_.host, std::to_string(address_.port),
      [weak = weak_from_this()](const error_code& error, const Tcp::resolver::results_type& found) {
        const auto self = weak.lock();
        if (!self) return;
        if (error) return self->try_later(error.message());
        self->endpoints_.assign(found.begin(), found.end());
        self->try_next();
      });
}

void Attempt::try_next() {
  if (next_ == endpoints_.size()) return try_later(last_reason_);
  const auto endpoint = endpoints_[next_++];
  socket_ = Tcp::socket(*loop_.context());
  socket_.async_connect(endpoint, [weak = weak_from_this()](const error_code& error) {
    const auto self = weak.lock();
    if (!self) return;
    if (!error) return self->connected();
    self->last_reason_ = error.message();
    self->try_next();
  });
  if (socket_.is_open()) keep_from_children(socket_.native_handle());
}

void Attempt::try_later(const std::string& reason) {
  last_reason_ = reason;
  if (retry_ != Network::Retry::kUntilDeadline)
    return finish(fail(ErrorCode::kUnavailable,
                       fmt::format("[net/connect] nobody answers at {}: {}; is the process there "
                                   "still running, and the port open?",
                                   to_string(address_), reason)));
  try_after(refused_.next());
}

void Attempt::try_after(Duration pause) {
  next_ = 0;
  retry_timer_ = loop_.call_at(loop_.clock().now() + pause, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->resolve();
  });
}

void Attempt::connected() {
  reached_ = true;
  const auto core = core_.lock();
  if (!core) return;
  core->authenticate(std::move(socket_), Side::kClient, deadline_.at(),
                     [weak = weak_from_this()](Result<std::shared_ptr<Connection>> result) {
                       if (const auto self = weak.lock()) self->authenticated(std::move(result));
                     });
}

// Whom a connection broke to in the middle of it may be there again soon, as a launcher that is
// started anew, or one whose host had no time for a handshake and has let go of it.
void Attempt::authenticated(Result<std::shared_ptr<Connection>> result) {
  const bool broke = !result && result.error().code == ErrorCode::kPeerLost;
  if (!broke || retry_ == Network::Retry::kNo) return finish(std::move(result));
  last_reason_ = result.error().message;
  try_after(broke_.next());
}

void Attempt::time_out() {
  finish(fail(ErrorCode::kTimeout, fmt::format("[net/connect] {} did not answer in time{}",
                                               to_string(address_), why_late())));
}

// A host that is up refuses where nobody listens; a firewall is what drops without a word.
std::string Attempt::why_late() const {
  if (!last_reason_.empty()) return fmt::format(" ({})", last_reason_);
  if (reached_) return " (no answer)";
  return "; a firewall drops what is sent to that port, or its host is down: hosts of a job have "
         "to "
         "reach each other at any port above 1023";
}

void Attempt::finish(Result<std::shared_ptr<Connection>> result) {
  const auto self = shared_from_this();
  timer_ = nullptr;
  retry_timer_ = nullptr;
  if (const auto core = core_.lock()) core->release(id_);
  if (const auto done = std::exchange(done_, nullptr)) done(std::move(result));
}

class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(std::weak_ptr<Core> core, const std::shared_ptr<asio::io_context>& context,
           Accepted accepted)
      : context_(context),
        acceptor_(*context),
        core_(std::move(core)),
        then_(std::move(accepted)) {}

  error_code open(const Tcp::endpoint& endpoint) {
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) keep_from_children(acceptor_.native_handle());
    if (!error) acceptor_.set_option(Tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(Tcp::acceptor::max_listen_connections, error);
    return error;
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

  void accept() {
    if (const auto core = core_.lock())
      core->when_there_is_room([weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->accept_one();
      });
  }

 private:
  void accept_one() {
    acceptor_.async_accept([weak = weak_from_this()](const error_code& error, Tcp::socket socket) {
      const auto self = weak.lock();
      const auto core = self ? self->core_.lock() : nullptr;
      if (!core || error == asio::error::operation_aborted) return;
      if (error) return self->accept_later(*core, error);
      self->welcome(*core, std::move(socket));
      self->accept();
    });
  }

  void welcome(Core& core, Tcp::socket socket) {
    const auto deadline = core.loop().clock().now() + core.options().handshake_timeout;
    core.authenticate(std::move(socket), Side::kServer, deadline,
                      [weak = weak_from_this()](const Result<std::shared_ptr<Connection>>& result) {
                        const auto self = weak.lock();
                        if (self && result) self->then_(*result);
                      });
  }

  // As when this process has no file descriptor left: wait until some are closed.
  void accept_later(Core& core, const error_code& error) {
    core.log().warn("[net/listen] cannot accept a connection now: {}", error.message());
    pause_ =
        core.loop().call_at(core.loop().clock().now() + kLongestRetry, [weak = weak_from_this()] {
          if (const auto self = weak.lock()) self->accept();
        });
  }

  std::shared_ptr<asio::io_context> context_;
  Tcp::acceptor acceptor_;
  std::weak_ptr<Core> core_;
  Accepted then_;
  Registration pause_;
};

class AsioListener : public Listener {
 public:
  AsioListener(std::shared_ptr<Acceptor> acceptor, Address address)
      : acceptor_(std::move(acceptor)), address_(std::move(address)) {}
  const Address& address() const noexcept override { return address_; }

 private:
  std::shared_ptr<Acceptor> acceptor_;
  Address address_;
};

class AsioNetwork : public Network {
 public:
  AsioNetwork(AsioLoop& loop, std::shared_ptr<Core> core) : loop_(loop), core_(std::move(core)) {}

  void connect(Address address, Deadline deadline, Connected done, Retry retry) override {
    loop_.post([weak = std::weak_ptr(core_), &loop = loop_, address = std::move(address), deadline,
                done = std::move(done), retry]() mutable {
      const auto core = weak.lock();
      if (!core) return done(fail(ErrorCode::kCancelled, "[net/connect] the network is gone"));
      const auto attempt = std::make_shared<Attempt>(core, loop, std::move(address), deadline,
                                                     retry, std::move(done));
      attempt->start(core->keep(attempt));
    });
  }

  Result<std::unique_ptr<Listener>> listen(const Address& address, Accepted accepted) override {
    error_code error;
    Tcp::resolver resolver(*loop_.context());
    const auto found =
        resolver.resolve(address.host, std::to_string(address.port), Tcp::resolver::passive, error);
    const auto acceptor = std::make_shared<Acceptor>(core_, loop_.context(), std::move(accepted));
    if (!error) error = acceptor->open(*found.begin());
    if (!error) warn_of_loopback(address, found.begin()->endpoint().address());
    if (error) return cannot_listen(address, error.message());
    loop_.post([weak = std::weak_ptr(acceptor)] {
      if (const auto open = weak.lock()) open->accept();
    });
    return std::unique_ptr<Listener>(
        std::make_unique<AsioListener>(acceptor, Address{address.host, acceptor->port()}));
  }

  const std::string& name() const noexcept override { return name_; }
  const Counters& counters() const noexcept override { return core_->counters(); }
  Loop& loop() const noexcept override { return loop_; }

 private:
  // As where /etc/hosts has a host's own name at 127.0.1.1.
  void warn_of_loopback(const Address& address, const asio::ip::address& found) const {
    error_code is_name;
    static_cast<void>(asio::ip::make_address(address.host, is_name));
    if (!is_name || !found.is_loopback() || address.host.starts_with("localhost")) return;
    core_->log().warn(
        "[net/listen] {} is {} on this host, where no other host can come; to be reached from "
        "others, listen at an address of this host, or at 0.0.0.0 (see /etc/hosts)",
        address.host, found.to_string());
  }

  const std::string name_ = "TCP";
  AsioLoop& loop_;
  std::shared_ptr<Core> core_;
};

}  // namespace

Result<std::unique_ptr<Network>> create_network(SystemLoop& loop, const Credentials& credentials,
                                                const NetworkOptions& options, Logger log) {
  auto& asio_loop = dynamic_cast<AsioLoop&>(loop);
  std::shared_ptr<TlsContext> tls;
  if (!options.insecure_plaintext) {
    MUSTER_ASSIGN(tls, create_tls_context(credentials, options.write_buffer, loop.clock()));
  }
  auto farewells = std::make_shared<Farewells>();
  auto settings = std::make_shared<const ConnectionSettings>(ConnectionSettings{
      asio_loop.context(), &asio_loop,
      FramePolicy{credentials.job(), Generation{0}, options.max_frame},
      std::make_shared<Counters>(), std::move(log), options.unanswered, farewells});
  return std::unique_ptr<Network>(std::make_unique<AsioNetwork>(
      asio_loop, std::make_shared<Core>(asio_loop, std::move(tls), options, std::move(settings),
                                        std::move(farewells))));
}

Result<std::shared_ptr<Connection>> connect_and_wait(Network& network, const Address& address,
                                                     Deadline deadline, Network::Retry retry) {
  Awaited<Result<std::shared_ptr<Connection>>> answer;
  network.connect(
      address, deadline,
      [giver = answer.giver()](Result<std::shared_ptr<Connection>> result) {
        giver->give(std::move(result));
      },
      retry);
  // The network keeps the deadline itself; the margin is for a loop that has stopped.
  const Deadline latest(deadline.at() + std::chrono::seconds(5));
  auto connected = answer.wait(network.loop().clock(), latest);
  if (connected) return std::move(*connected);
  return fail(ErrorCode::kTimeout, fmt::format("[net/connect] no answer about {}; the loop has "
                                               "stopped",
                                               to_string(address)));
}

}  // namespace muster::net
