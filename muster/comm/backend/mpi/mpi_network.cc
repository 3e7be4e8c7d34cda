#include "muster/comm/backend/mpi/mpi_network.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include "muster/base/awaited.h"
#include "muster/base/shared_library.h"
#include "muster/base/units.h"
#include "muster/comm/backend/mpi/mpi_channel.h"

namespace muster::comm {
namespace {

// How long the loop may take for what it never waits in.
constexpr Duration kAnswers = std::chrono::seconds(10);
constexpr Duration kAskAgain = std::chrono::milliseconds(50);

class MpiConnection final : public net::Connection {
 public:
  MpiConnection(std::shared_ptr<MpiShared> shared, std::shared_ptr<MpiChannel> channel)
      : shared_(std::move(shared)), channel_(std::move(channel)) {}
  ~MpiConnection() override {
    post([](MpiChannel& channel) { channel.drop(); });
  }

  void start(std::shared_ptr<net::Receiver> receiver) override {
    post([receiver = std::move(receiver)](MpiChannel& channel) { channel.start(receiver); });
  }

  // Copied in the caller's thread. MPI cannot be told to leave memory alone that it has begun to
  // send from, and the caller's has to be at rest as soon as an operation is given up.
  void send(const net::FrameHeader& header, std::vector<std::span<const std::byte>> pieces,
            net::SendDone done) override {
    net::FrameHeader filled = header;
    filled.job = shared_->policy.job;
    filled.length = 0;
    for (const auto& piece : pieces) filled.length += piece.size();
    const MpiEnvelope envelope{MpiEnvelope::kFrame, channel_->peer().channel, 0, 0, filled.job};
    auto message = std::make_shared<MpiMemory::Piece>(shared_->messages->memory().take(
        sizeof(envelope) + net::kHeaderBytes + static_cast<std::size_t>(filled.length)));
    std::byte* at = message->bytes().data();
    const auto add = [&at](std::span<const std::byte> bytes) {
      if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
      at += bytes.size();
    };
    add(std::as_bytes(std::span(&envelope, 1)));
    add(net::encode_header(filled));
    for (const auto& piece : pieces) add(piece);
    post([message, done = std::move(done)](MpiChannel& channel) {
      channel.send(std::move(*message), done);
    });
  }
  using Connection::send;

  void receive_into(std::span<std::byte> destination) override {
    post([destination](MpiChannel& channel) { channel.receive_into(destination); });
  }
  void refuse_before(Generation oldest) override {
    post([oldest](MpiChannel& channel) { channel.refuse_before(oldest); });
  }
  void close(Error why) noexcept override {
    post([why = std::move(why)](MpiChannel& channel) { channel.shut(why); });
  }
  void finish(Deadline deadline) override {
    post([deadline](MpiChannel& channel) { channel.finish(deadline); });
  }
  const net::Address& peer() const noexcept override { return channel_->peer().address; }

 private:
  void post(std::function<void(MpiChannel&)> step) {
    shared_->loop->post([channel = channel_, step = std::move(step)] { step(*channel); });
  }

  const std::shared_ptr<MpiShared> shared_;
  const std::shared_ptr<MpiChannel> channel_;
};

// Who is called, and who calls. The loop's thread only.
class Switchboard : public std::enable_shared_from_this<Switchboard> {
 public:
  explicit Switchboard(std::shared_ptr<MpiShared> shared) : shared_(std::move(shared)) {}

  // What MPI's begin has to say, and the first look for messages.
  Status begin() {
    MusterMpi& mpi = *shared_->mpi;
    if (const char* const told = mpi.start())
      return fail(ErrorCode::kUnavailable, fmt::format("[comm/mpi] MPI does not begin: {}", told));
    shared_->messages = std::make_unique<MpiMessages>(
        *shared_->loop, mpi,
        MpiMessages::Receiver{
            [this](int from, MpiMemory::Piece message) { receive(from, std::move(message)); },
            [this](const Error& why) { end_all(why); }});
    return ok();
  }

  std::uint16_t open_port(net::Accepted accepted) {
    do ++last_port_;
    while (last_port_ == 0 || ports_.contains(last_port_));
    ports_.emplace(last_port_, std::move(accepted));
    return last_port_;
  }
  void close_port(std::uint16_t port) { ports_.erase(port); }

  void call(MpiPeer peer, Deadline deadline, net::Connected done, net::Network::Retry retry) {
    const std::uint32_t own = ++shared_->last_channel;
    Call call{std::move(peer), std::move(done), retry, nullptr, nullptr};
    call.timer = shared_->loop->call_at(deadline.at(), [this, own] {
      if (auto over = calls_.extract(own))
        over.mapped().done(
            fail(ErrorCode::kTimeout, fmt::format("[comm/mpi] {} did not answer in time",
                                                  net::to_string(over.mapped().peer.address))));
    });
    const int rank = call.peer.rank;
    const std::uint32_t port = call.peer.channel;
    calls_.emplace(own, std::move(call));
    shared_->tell(rank, MpiEnvelope::kOpen, port, own);
  }

 private:
  struct Call {
    MpiPeer peer;  // channel: the port
    net::Connected done;
    net::Network::Retry retry;
    net::Registration timer;
    net::Registration again;
  };

  void receive(int from, MpiMemory::Piece message) {
    MpiEnvelope envelope;
    if (message.bytes().size() < sizeof(envelope)) {
      ++shared_->counters.malformed;
      return shared_->messages->memory().give_back(std::move(message));
    }
    std::memcpy(&envelope, message.bytes().data(), sizeof(envelope));
    if (envelope.kind == MpiEnvelope::kFrame) {
      const auto channel = channel_of(from, envelope);
      if (channel) return channel->arrive(std::move(message));
    }
    shared_->messages->memory().give_back(std::move(message));
    if (envelope.kind == MpiEnvelope::kOpen) answer(from, envelope);
    if (envelope.kind == MpiEnvelope::kAccept) accepted(from, envelope);
    if (envelope.kind == MpiEnvelope::kRefuse) refused(envelope.to);
    if (envelope.kind == MpiEnvelope::kClose)
      if (const auto channel = channel_of(from, envelope)) channel->peer_closed();
  }

  // What comes late for one that is closed is nobody's.
  std::shared_ptr<MpiChannel> channel_of(int from, const MpiEnvelope& envelope) const {
    const auto found = shared_->channels.find(envelope.to);
    if (found == shared_->channels.end() || found->second->peer().rank != from) return nullptr;
    return found->second;
  }

  std::shared_ptr<net::Connection> connect(std::uint32_t own, MpiPeer peer) {
    auto channel = std::make_shared<MpiChannel>(*shared_, own, std::move(peer));
    shared_->channels.emplace(own, channel);
    return std::make_shared<MpiConnection>(shared_, std::move(channel));
  }

  void answer(int from, const MpiEnvelope& envelope) {
    const auto port = ports_.find(static_cast<std::uint16_t>(envelope.to));
    const bool member = envelope.job == shared_->policy.job;
    if (!member) {
      ++shared_->counters.wrong_job;
      shared_->log->warn("[comm/mpi] rank {} of the world is of another job and not let in", from);
    }
    if (port == ports_.end() || !member)
      return shared_->tell(from, MpiEnvelope::kRefuse, envelope.from, 0);
    const std::uint32_t own = ++shared_->last_channel;
    const net::Accepted then = port->second;
    auto connection =
        connect(own, {from,
                      envelope.from,
                      {fmt::format("{}", from), static_cast<std::uint16_t>(envelope.from)}});
    shared_->tell(from, MpiEnvelope::kAccept, envelope.from, own);
    then(std::move(connection));
  }

  void accepted(int from, const MpiEnvelope& envelope) {
    auto call = calls_.extract(envelope.to);
    // Who has stopped waiting for it lets go.
    if (!call) return shared_->tell(from, MpiEnvelope::kClose, envelope.from, envelope.to);
    MpiPeer peer = std::move(call.mapped().peer);
    peer.channel = envelope.from;
    call.mapped().done(connect(envelope.to, std::move(peer)));
  }

  void refused(std::uint32_t own) {
    const auto found = calls_.find(own);
    if (found == calls_.end()) return;
    Call& call = found->second;
    if (call.retry == net::Network::Retry::kUntilDeadline) {
      call.again =
          shared_->loop->call_at(shared_->loop->clock().now() + kAskAgain,
                                 [this, own, rank = call.peer.rank, port = call.peer.channel] {
                                   if (calls_.contains(own))
                                     shared_->tell(rank, MpiEnvelope::kOpen, port, own);
                                 });
      return;
    }
    const auto over = calls_.extract(found);
    over.mapped().done(
        fail(ErrorCode::kUnavailable, fmt::format("[comm/mpi] nobody of this job answers at {}",
                                                  net::to_string(over.mapped().peer.address))));
  }

  void end_all(const Error& why) {
    for (auto& [own, call] : std::exchange(calls_, {})) call.done(why);
    const auto channels = shared_->channels;
    for (const auto& [own, channel] : channels) channel->shut(why);
  }

  const std::shared_ptr<MpiShared> shared_;
  std::map<std::uint16_t, net::Accepted> ports_;
  std::uint16_t last_port_ = 0;
  std::map<std::uint32_t, Call> calls_;
};

class MpiListener final : public net::Listener {
 public:
  MpiListener(net::Loop& loop, std::weak_ptr<Switchboard> board, net::Address address)
      : loop_(loop), board_(std::move(board)), address_(std::move(address)) {}
  ~MpiListener() override {
    loop_.post([weak = board_, port = address_.port] {
      if (const auto board = weak.lock()) board->close_port(port);
    });
  }
  const net::Address& address() const noexcept override { return address_; }

 private:
  net::Loop& loop_;
  const std::weak_ptr<Switchboard> board_;
  const net::Address address_;
};

class World final : public MpiNetwork {
 public:
  explicit World(std::shared_ptr<MpiShared> shared)
      : shared_(std::move(shared)), board_(std::make_shared<Switchboard>(shared_)) {}

  ~World() override {
    // A thread that hangs in MPI cannot be waited for: it, and what it uses, stays.
    if (hangs_) {
      static auto& kept = *new std::vector<std::shared_ptr<void>>;
      kept.push_back(shared_);
      kept.push_back(board_);
      return;
    }
    shared_->loop->stop();
  }

  Status begin(Duration patience) {
    Awaited<Status> begun;
    shared_->loop->post([board = board_, giver = begun.giver()] { giver->give(board->begin()); });
    const auto told = begun.wait(clock(), Deadline::after(clock(), patience));
    hangs_ = !told;
    if (hangs_)
      return fail(ErrorCode::kTimeout,
                  fmt::format("[comm/mpi] MPI does not begin within {}: have all processes that "
                              "its launcher has started come to this?",
                              format_duration(patience)));
    MUSTER_TRY(*told);
    library_ = shared_->mpi->library();
    return ok();
  }

  void connect(net::Address address, Deadline deadline, net::Connected done, Retry retry) override {
    MpiPeer peer{-1, address.port, address};
    const auto [end, error] =
        std::from_chars(address.host.data(), address.host.data() + address.host.size(), peer.rank);
    const bool known = error == std::errc() && peer.rank >= 0 && peer.rank < size();
    shared_->loop->post([board = board_, known, peer = std::move(peer), deadline,
                         done = std::move(done), retry, ranks = size()]() mutable {
      if (known) return board->call(std::move(peer), deadline, std::move(done), retry);
      done(fail(ErrorCode::kUnavailable, fmt::format("[comm/mpi] {} is not in MPI's world of {}",
                                                     net::to_string(peer.address), ranks)));
    });
  }

  Result<std::unique_ptr<net::Listener>> listen(const net::Address&,
                                                net::Accepted accepted) override {
    Awaited<std::uint16_t> opened;
    shared_->loop->post([board = board_, accepted = std::move(accepted), giver = opened.giver()] {
      giver->give(board->open_port(accepted));
    });
    const auto port = opened.wait(clock(), Deadline::after(clock(), kAnswers));
    if (!port)
      return fail(ErrorCode::kTimeout, "[comm/mpi] the thread that speaks to MPI does not answer");
    return std::make_unique<MpiListener>(
        *shared_->loop, board_, net::Address{fmt::format("{}", shared_->mpi->rank), *port});
  }

  Status finish(Deadline deadline) override {
    Awaited<Status> ended;
    shared_->loop->post([shared = shared_, giver = ended.giver()] {
      shared->messages->finish([shared, giver] {
        const char* const told = shared->mpi->finish();
        giver->give(told == nullptr
                        ? ok()
                        : Status(fail(ErrorCode::kUnavailable,
                                      fmt::format("[comm/mpi] MPI does not end: {}", told))));
      });
    });
    auto told = ended.wait(clock(), deadline);
    hangs_ = !told;
    if (told) return *told;
    return fail(ErrorCode::kTimeout,
                "[comm/mpi] the other processes of MPI's world have not come to its end in time");
  }

  const std::string& name() const noexcept override { return library_; }
  int size() const noexcept override { return shared_->mpi->size; }
  const net::Counters& counters() const noexcept override { return shared_->counters; }
  net::Loop& loop() const noexcept override { return *shared_->loop; }

 private:
  Clock& clock() const noexcept { return shared_->loop->clock(); }

  const std::shared_ptr<MpiShared> shared_;
  const std::shared_ptr<Switchboard> board_;
  std::string library_;
  bool hangs_ = false;
};

Result<MusterMpi*> load(const Path& module) {
  MUSTER_ASSIGN(void* const symbol, load_symbol(module, MUSTER_MPI_SYMBOL));
  MusterMpi* const mpi = reinterpret_cast<MusterMpiModule*>(symbol)();
  if (mpi->version == MUSTER_MPI_VERSION) return mpi;
  return fail(
      ErrorCode::kUnavailable,
      fmt::format("[comm/mpi] {} is of another version of muster ({}, here {}): install both "
                  "together",
                  module.native(), mpi->version, MUSTER_MPI_VERSION));
}

}  // namespace

Result<std::unique_ptr<MpiNetwork>> create_mpi_network(const MpiOptions& options) {
  MUSTER_ASSIGN(MusterMpi* const mpi, load(options.module));
  auto shared = std::make_shared<MpiShared>();
  shared->loop = net::create_loop("muster-mpi", options.log, *options.clock);
  shared->mpi = mpi;
  shared->policy = {.job = options.job, .oldest = Generation{0}, .max_length = options.max_frame};
  shared->log = options.log;
  auto world = std::make_unique<World>(std::move(shared));
  MUSTER_TRY(world->begin(options.patience));
  options.log->info("MPI is {}: this is rank {} of {}", world->name(), mpi->rank, mpi->size);
  return world;
}

}  // namespace muster::comm
