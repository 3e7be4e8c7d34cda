#include "muster/cluster/enlist.h"

#include <fmt/format.h>

#include "muster/base/awaited.h"
#include "muster/cluster/control_channel.h"

namespace muster::cluster {
namespace {

class ConnectedPlace final : public Place {
 public:
  ConnectedPlace(std::shared_ptr<net::Connection> connection, Enlisted enlisted,
                 Awaited<Error> closed, Clock& clock)
      : connection_(std::move(connection)),
        enlisted_(std::move(enlisted)),
        closed_(std::move(closed)),
        clock_(clock) {}
  ~ConnectedPlace() override {
    connection_->close(fail(ErrorCode::kCancelled, "[cluster/join] the place is given back"));
  }
  const Enlisted& enlisted() const noexcept override { return enlisted_; }
  void tell_end(const Ended& ended, Deadline deadline) override {
    send_message(*connection_, ended);
    connection_->finish(deadline);
    static_cast<void>(closed_.wait(clock_, deadline));
  }

 private:
  const std::shared_ptr<net::Connection> connection_;
  const Enlisted enlisted_;
  Awaited<Error> closed_;
  Clock& clock_;
};

}  // namespace

Result<std::unique_ptr<Place>> enlist(net::Network& network, const net::Address& coordinator,
                                      Enlist offer, Deadline deadline) {
  const Clock& clock = network.loop().clock();
  const TimePoint begun = clock.now();
  auto connected =
      net::connect_and_wait(network, coordinator, deadline, net::Network::Retry::kIfBroken);
  if (!connected) return with_context(connected.error(), "[cluster/join]");
  const std::shared_ptr<net::Connection> connection = std::move(*connected);
  Awaited<Result<Enlisted>> answer;
  const auto giver = answer.giver();
  Awaited<Error> closed;
  connection->start(create_control_receiver({
      [giver](const Message& message) {
        if (const auto* enlisted = std::get_if<Enlisted>(&message)) giver->give(*enlisted);
        if (const auto* refusal = std::get_if<Failure>(&message)) giver->give(refusal->error);
      },
      [giver](const Error& why) { giver->give(why); },
      [giver, end = closed.giver()](const Error& why) {
        giver->give(why);
        end->give(why);
      },
  }));
  offer.wall = WallReading{clock.wall(), clock.now() - begun};
  send_message(*connection, offer);
  auto came = answer.wait(network.loop().clock(), deadline);
  Result<Enlisted> enlisted =
      came ? Result<Enlisted>(std::move(*came))
           : fail(ErrorCode::kTimeout, fmt::format("[cluster/join] the launcher at {} has not "
                                                   "answered in time",
                                                   to_string(coordinator)));
  if (!enlisted) {
    connection->close(enlisted.error());
    return enlisted.error();
  }
  return std::make_unique<ConnectedPlace>(connection, std::move(*enlisted), std::move(closed),
                                          network.loop().clock());
}

}  // namespace muster::cluster
