#include "muster/cluster/enlist.h"

#include <fmt/format.h>

#include <future>

#include "muster/cluster/control_channel.h"

namespace muster::cluster {
namespace {

// The first answer counts; callbacks may come when nobody waits any more.
class Answer {
 public:
  std::future<Result<Enlisted>> future() { return promise_.get_future(); }
  void set(Result<Enlisted> answer) {
    if (!std::exchange(given_, true)) promise_.set_value(std::move(answer));
  }

 private:
  bool given_ = false;  // the loop's thread
  std::promise<Result<Enlisted>> promise_;
};

class ConnectedPlace final : public Place {
 public:
  ConnectedPlace(std::shared_ptr<net::Connection> connection, Enlisted enlisted)
      : connection_(std::move(connection)), enlisted_(std::move(enlisted)) {}
  ~ConnectedPlace() override {
    connection_->close(fail(ErrorCode::kCancelled, "[cluster/join] the place is given back"));
  }
  const Enlisted& enlisted() const noexcept override { return enlisted_; }

 private:
  const std::shared_ptr<net::Connection> connection_;
  const Enlisted enlisted_;
};

}  // namespace

Result<std::unique_ptr<Place>> enlist(net::Network& network, const net::Address& coordinator,
                                      const Enlist& offer, Deadline deadline) {
  auto connected = net::connect_and_wait(network, coordinator, deadline);
  if (!connected) return with_context(connected.error(), "[cluster/join]");
  const std::shared_ptr<net::Connection> connection = std::move(*connected);
  const auto answer = std::make_shared<Answer>();
  auto answered = answer->future();
  connection->start(create_control_receiver({
      [answer](const Message& message) {
        if (const auto* enlisted = std::get_if<Enlisted>(&message)) answer->set(*enlisted);
        if (const auto* refusal = std::get_if<Failure>(&message)) answer->set(refusal->error);
      },
      [answer](const Error& why) { answer->set(why); },
      [answer](const Error& why) { answer->set(why); },
  }));
  send_message(*connection, offer);
  const bool came = answered.wait_until(deadline.at()) == std::future_status::ready;
  Result<Enlisted> enlisted =
      came ? answered.get()
           : fail(ErrorCode::kTimeout, fmt::format("[cluster/join] the launcher at {} has not "
                                                   "answered in time",
                                                   to_string(coordinator)));
  if (!enlisted) {
    connection->close(enlisted.error());
    return enlisted.error();
  }
  return std::make_unique<ConnectedPlace>(connection, std::move(*enlisted));
}

}  // namespace muster::cluster
