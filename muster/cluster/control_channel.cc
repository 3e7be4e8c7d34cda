#include "muster/cluster/control_channel.h"

#include <fmt/format.h>

namespace muster::cluster {
namespace {

class ControlReceiver : public net::Receiver {
 public:
  explicit ControlReceiver(ControlEvents events) : events_(std::move(events)) {}

  Result<std::optional<std::span<std::byte>>> on_header(const net::FrameHeader& header) override {
    if (header.kind != net::kControlFrame)
      return fail(ErrorCode::kInvalid,
                  fmt::format("[cluster/control] a frame of kind {} came on the control connection",
                              header.kind));
    payload_.resize(header.length);
    return std::optional(std::span(payload_));
  }

  void on_frame(const net::FrameHeader&) override {
    const auto message = decode(payload_);
    if (message) return events_.on_message(*message);
    events_.on_bad_message(message.error());
  }

  void on_close(const Error& why) override { events_.on_close(why); }

 private:
  ControlEvents events_;
  std::vector<std::byte> payload_;
};

}  // namespace

void send_message(net::Connection& connection, const Message& message, Rank sender) {
  net::FrameHeader header;
  header.kind = net::kControlFrame;
  header.sender = sender;
  connection.send(header, encode(message));
}

std::shared_ptr<net::Receiver> create_control_receiver(ControlEvents events) {
  return std::make_shared<ControlReceiver>(std::move(events));
}

}  // namespace muster::cluster
