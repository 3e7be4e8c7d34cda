#include "muster/cluster/door.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "muster/cluster/control_channel.h"

namespace muster::cluster {
namespace {

// How long the one behind the door tries to reach whoever knocks; less than a knock may take.
constexpr Duration kBack = std::chrono::seconds(3);

using Done = std::function<void(const Status&)>;

// All on the loop's thread. Kept alive by the Door; everything else refers to it weakly.
class Threshold : public std::enable_shared_from_this<Threshold> {
 public:
  explicit Threshold(net::Network& network) : network_(network) {}

  void set_address(const net::Address& address) { address_ = to_string(address); }

  // ---- who knocks here

  void accept(const std::shared_ptr<net::Connection>& connection) {
    const std::uint64_t id = ++last_;
    visitors_[id] = connection;
    listen_to(*connection, id, [weak = weak_from_this(), id](const Message& message) {
      const auto self = weak.lock();
      if (const auto* knock = std::get_if<Knock>(&message); self && knock != nullptr)
        self->reach_back(id, knock->door);
    });
  }

  // ---- knocking there

  void knock(const net::Address& there, Deadline deadline, Done done) {
    const std::uint64_t id = ++last_;
    Attempt& attempt = attempts_[id];
    attempt.done = std::move(done);
    attempt.timer = network_.loop().call_at(deadline.at(), [weak = weak_from_this(), id] {
      if (const auto self = weak.lock())
        self->finish(id, fail(ErrorCode::kTimeout, "it does not answer at its door"));
    });
    network_.connect(
        there, deadline,
        [weak = weak_from_this(), id](auto connection) {
          const auto self = weak.lock();
          if (!self) return;
          if (!connection) return self->finish(id, connection.error());
          self->connected(id, std::move(*connection));
        },
        net::Network::Retry::kIfBroken);
  }

  void close() {
    const Error why = fail(ErrorCode::kCancelled, "[cluster/door] the door is closed");
    for (auto& [id, connection] : std::exchange(visitors_, {})) connection->close(why);
    for (auto& [id, attempt] : std::exchange(attempts_, {}))
      if (attempt.connection) attempt.connection->close(why);
  }

 private:
  struct Attempt {
    Done done;
    net::Registration timer;
    std::shared_ptr<net::Connection> connection;
  };

  void listen_to(net::Connection& connection, std::uint64_t id,
                 std::function<void(const Message&)> on_message) {
    connection.start(create_control_receiver({std::move(on_message),
                                              [weak = weak_from_this(), id](const Error& why) {
                                                if (const auto self = weak.lock())
                                                  self->drop(id, why);
                                              },
                                              [weak = weak_from_this(), id](const Error& why) {
                                                if (const auto self = weak.lock())
                                                  self->drop(id, why);
                                              }}));
  }

  void drop(std::uint64_t id, const Error& why) {
    if (const auto found = visitors_.extract(id)) found.mapped()->close(why);
    finish(id, why);
  }

  void reach_back(std::uint64_t id, const std::string& door) {
    const auto address = net::parse_address(door);
    if (!address) return answer(id, address.error().message);
    network_.connect(
        *address, Deadline::after(network_.loop().clock(), kBack),
        [weak = weak_from_this(), id](const auto& connection) {
          if (const auto self = weak.lock())
            self->answer(id, connection ? "" : connection.error().message);
        },
        net::Network::Retry::kIfBroken);
  }

  // Whoever knocked closes.
  void answer(std::uint64_t id, const std::string& why) {
    if (const auto found = visitors_.find(id); found != visitors_.end())
      send_message(*found->second, Knocked{why});
  }

  void connected(std::uint64_t id, const std::shared_ptr<net::Connection>& connection) {
    const auto found = attempts_.find(id);
    if (found == attempts_.end()) return;  // too late
    found->second.connection = connection;
    listen_to(*connection, id, [weak = weak_from_this(), id](const Message& message) {
      const auto self = weak.lock();
      const auto* answer = std::get_if<Knocked>(&message);
      if (!self || answer == nullptr) return;
      self->finish(id, answer->why.empty()
                           ? ok()
                           : Status(fail(ErrorCode::kUnavailable,
                                         "it cannot reach this worker: " + answer->why)));
    });
    send_message(*connection, Knock{address_});
  }

  void finish(std::uint64_t id, const Status& outcome) {
    auto attempt = attempts_.extract(id);
    if (!attempt) return;
    if (const auto& connection = attempt.mapped().connection)
      connection->close(fail(ErrorCode::kCancelled, "[cluster/door] that is all"));
    attempt.mapped().done(outcome);
  }

  net::Network& network_;
  std::string address_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, std::shared_ptr<net::Connection>> visitors_;
  std::map<std::uint64_t, Attempt> attempts_;
};

class NetworkDoor final : public Door {
 public:
  NetworkDoor(net::Loop& loop, std::shared_ptr<Threshold> threshold,
              std::unique_ptr<net::Listener> listener)
      : loop_(loop), threshold_(std::move(threshold)), listener_(std::move(listener)) {}

  ~NetworkDoor() override {
    listener_.reset();
    loop_.post([threshold = threshold_] { threshold->close(); });
  }

  const net::Address& address() const noexcept override { return listener_->address(); }

  void knock(const net::Address& there, Deadline deadline, Done done) override {
    loop_.post([weak = std::weak_ptr(threshold_), there, deadline, done = std::move(done)] {
      if (const auto threshold = weak.lock()) threshold->knock(there, deadline, done);
    });
  }

 private:
  net::Loop& loop_;
  const std::shared_ptr<Threshold> threshold_;
  std::unique_ptr<net::Listener> listener_;
};

}  // namespace

Result<std::unique_ptr<Door>> open_door(net::Network& network, const std::string& host) {
  const auto threshold = std::make_shared<Threshold>(network);
  auto listener = network.listen(
      {host, 0}, [weak = std::weak_ptr(threshold)](const std::shared_ptr<net::Connection>& from) {
        if (const auto open = weak.lock()) open->accept(from);
      });
  if (!listener) return with_context(listener.error(), "[cluster/door]");
  threshold->set_address((*listener)->address());
  return std::unique_ptr<Door>(
      std::make_unique<NetworkDoor>(network.loop(), threshold, std::move(*listener)));
}

}  // namespace muster::cluster
