#include "muster/cluster/coordinator.h"

#include <fmt/format.h>

#include <mutex>

#include "muster/base/check.h"
#include "muster/cluster/control_channel.h"
#include "muster/cluster/host_clocks.h"

namespace muster::cluster {
namespace {

// All on the loop's thread. Kept alive by the Coordinator; everything else refers to it weakly.
class Shell : public std::enable_shared_from_this<Shell> {
 public:
  Shell(net::Network& network, CoordinatorOptions options, CoordinatorEvents events, Logger log)
      : loop_(network.loop()),
        clock_(loop_.clock()),
        state_(std::move(options), clock_.now(), log),
        events_(std::move(events)),
        log_(std::move(log)) {}

  void accept(const std::shared_ptr<net::Connection>& connection) {
    const PeerId peer = ++last_peer_;
    lines_[peer].connection = connection;
    connection->start(create_control_receiver({
        [weak = weak_from_this(), peer](const Message& message) {
          if (const auto self = weak.lock()) self->on_message(peer, message);
        },
        [weak = weak_from_this(), peer](const Error& why) {
          if (const auto self = weak.lock()) self->close(peer, why);
        },
        [weak = weak_from_this(), peer](const Error& why) {
          if (const auto self = weak.lock()) self->on_closed(peer, why);
        },
    }));
  }

  void broadcast(const Message& message) { perform(state_.broadcast(message)); }

  void let_go(std::int32_t worker) { perform(state_.let_go(worker)); }

  void expect(std::int32_t workers) {
    perform(state_.expect(workers, clock_.now()));
    schedule();
  }

  // After what may make something due sooner, and when the timer has fired: on time, since the
  // state takes what it does late for a sign that it slept. Too soon does no harm.
  void schedule() {
    const auto next = state_.next_clock(clock_.now());
    if (next >= scheduled_) return;
    scheduled_ = next;
    timer_ = loop_.call_at(next, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      self->scheduled_ = TimePoint::max();
      self->perform(self->state_.on_clock(self->clock_.now()));
      self->schedule();
    });
  }

  void end() {
    for (const auto& [peer, line] : lines_)
      line.connection->close(
          fail(ErrorCode::kCancelled, "[cluster/coordinator] the coordinator has ended"));
    lines_.clear();
    timer_ = nullptr;
    events_ = {};
  }

 private:
  struct Line {
    std::shared_ptr<net::Connection> connection;
    MemberList told;  // of the last generation that the peer was told of
  };

  void on_message(PeerId peer, const Message& message) {
    if (const auto* join = std::get_if<Join>(&message)) compare_clock(join->info.host, join->wall);
    if (const auto* offer = std::get_if<Enlist>(&message)) compare_clock(offer->host, offer->wall);
    perform(state_.on_message(peer, message, clock_.now()));
    schedule();
  }

  void compare_clock(const std::string& host, const std::optional<WallReading>& wall) {
    if (!wall) return;
    if (const auto warning = clocks_.note(host, *wall, clock_.wall())) log_->warn("{}", *warning);
  }

  void on_closed(PeerId peer, const Error& why) {
    lines_.erase(peer);
    perform(state_.on_closed(peer, why, clock_.now()));
  }

  void close(PeerId peer, const Error& why) {
    log_->warn("{}", why.message);
    if (const auto found = lines_.find(peer); found != lines_.end())
      found->second.connection->close(why);
  }

  void perform(const std::vector<Action>& actions) {
    for (const auto& action : actions) {
      if (const auto* send = std::get_if<SendAction>(&action)) {
        const auto found = lines_.find(send->to);
        if (found != lines_.end())
          send_message(*found->second.connection, send->message, kNoRank, &found->second.told);
      } else if (const auto* closing = std::get_if<CloseAction>(&action)) {
        refuse(*closing);
      } else {
        std::get<TellAction>(action).tell(events_);
      }
    }
  }

  // Says why before it closes, so that the worker can tell its user.
  void refuse(const CloseAction& closing) {
    // Of one that the others go on without, the launcher tells.
    if (closing.why.code != ErrorCode::kStale) log_->warn("{}", closing.why.message);
    const auto found = lines_.find(closing.peer);
    if (found == lines_.end()) return;
    send_message(*found->second.connection, Failure{closing.why, {}});
    found->second.connection->finish(Deadline::after(clock_, std::chrono::seconds(1)));
  }

  net::Loop& loop_;
  Clock& clock_;
  CoordinatorState state_;
  CoordinatorEvents events_;
  Logger log_;
  HostClocks clocks_;
  PeerId last_peer_ = 0;
  std::map<PeerId, Line> lines_;
  net::Registration timer_;
  TimePoint scheduled_ = TimePoint::max();
};

class NetworkCoordinator : public Coordinator {
 public:
  NetworkCoordinator(net::Loop& loop, std::shared_ptr<Shell> shell,
                     std::unique_ptr<net::Listener> listener)
      : loop_(loop), shell_(std::move(shell)), listener_(std::move(listener)) {}

  ~NetworkCoordinator() override {
    listener_.reset();
    net::run_and_wait(
        loop_, [this] { shell_->end(); }, Deadline::after(loop_.clock(), std::chrono::seconds(5)));
  }

  const net::Address& address() const noexcept override { return listener_->address(); }

  void broadcast(const Message& message) override {
    loop_.post([weak = std::weak_ptr(shell_), message] {
      if (const auto shell = weak.lock()) shell->broadcast(message);
    });
  }

  void let_go(std::int32_t worker) override {
    loop_.post([weak = std::weak_ptr(shell_), worker] {
      if (const auto shell = weak.lock()) shell->let_go(worker);
    });
  }

  void expect(std::int32_t workers) override {
    loop_.post([weak = std::weak_ptr(shell_), workers] {
      if (const auto shell = weak.lock()) shell->expect(workers);
    });
  }

 private:
  net::Loop& loop_;
  std::shared_ptr<Shell> shell_;
  std::unique_ptr<net::Listener> listener_;
};

}  // namespace

Result<std::unique_ptr<Coordinator>> create_coordinator(net::Network& network,
                                                        const net::Address& address,
                                                        CoordinatorOptions options,
                                                        CoordinatorEvents events, Logger log) {
  const auto shell =
      std::make_shared<Shell>(network, std::move(options), std::move(events), std::move(log));
  auto listener = network.listen(
      address, [weak = std::weak_ptr(shell)](const std::shared_ptr<net::Connection>& connection) {
        if (const auto open = weak.lock()) open->accept(connection);
      });
  if (!listener) return with_context(listener.error(), "[cluster/coordinator]");
  network.loop().post([weak = std::weak_ptr(shell)] {
    if (const auto open = weak.lock()) open->schedule();
  });
  return std::unique_ptr<Coordinator>(
      std::make_unique<NetworkCoordinator>(network.loop(), shell, std::move(*listener)));
}

}  // namespace muster::cluster
