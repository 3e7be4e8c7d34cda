#include "muster/cluster/control_channel.h"

#include <fmt/format.h>

#include <utility>

namespace muster::cluster {
namespace {

class ControlReceiver : public net::Receiver {
 public:
  ControlReceiver(ControlEvents events, std::shared_ptr<MemberLists> lists)
      : events_(std::move(events)), lists_(std::move(lists)) {}

  Result<std::optional<std::span<std::byte>>> on_header(const net::FrameHeader& header) override {
    if (header.kind != net::kControlFrame && header.kind != kMembersFrame)
      return fail(ErrorCode::kInvalid,
                  fmt::format("[cluster/control] a frame of kind {} came on the control connection",
                              header.kind));
    payload_.resize(header.length);
    return std::optional(std::span(payload_));
  }

  void on_frame(const net::FrameHeader& header) override {
    const Status taken = header.kind == kMembersFrame ? take_members() : take_message();
    if (!taken) events_.on_bad_message(taken.error());
  }

  void on_close(const Error& why) override { events_.on_close(why); }

 private:
  Status take_members() {
    MUSTER_ASSIGN(known_,
                  lists_ ? lists_->read(payload_, known_) : decode_member_list(payload_, known_));
    members_ = known_;
    return ok();
  }

  Status take_message() {
    MUSTER_ASSIGN(auto message, decode(payload_));
    if (auto* welcome = std::get_if<Welcome>(&message)) MUSTER_TRY(complete(*welcome));
    events_.on_message(message);
    return ok();
  }

  Status complete(Welcome& welcome) {
    if (welcome.members.empty()) welcome.members = std::exchange(members_, {});
    if (to_int(welcome.rank) < static_cast<std::int64_t>(welcome.members.size())) return ok();
    return fail(ErrorCode::kCorrupt,
                fmt::format("[cluster/control] a welcome as rank {} among {} members",
                            to_int(welcome.rank), welcome.members.size()));
  }

  ControlEvents events_;
  const std::shared_ptr<MemberLists> lists_;
  MemberList known_;    // what was read last; what is new next is new to these
  MemberList members_;  // of the Welcome that comes next
  std::vector<std::byte> payload_;
};

void send_members(net::Connection& connection, const MemberList& members, Rank sender,
                  MemberList* told) {
  const auto bytes = told != nullptr ? members.encoded_after(*told) : members.encoded();
  if (told != nullptr) *told = members;
  net::FrameHeader header;
  header.kind = kMembersFrame;
  header.sender = sender;
  connection.send(header, {*bytes}, [bytes](const Status&) {});
}

}  // namespace

void send_message(net::Connection& connection, const Message& message, Rank sender,
                  MemberList* told) {
  const auto* whole = std::get_if<Welcome>(&message);
  if (whole != nullptr && !whole->members.empty()) {
    send_members(connection, whole->members, sender, told);
    return send_message(connection, Welcome{whole->generation, whole->rank, {}, whole->planned},
                        sender);
  }
  net::FrameHeader header;
  header.kind = net::kControlFrame;
  header.sender = sender;
  connection.send(header, encode(message));
}

std::shared_ptr<net::Receiver> create_control_receiver(ControlEvents events,
                                                       std::shared_ptr<MemberLists> lists) {
  return std::make_shared<ControlReceiver>(std::move(events), std::move(lists));
}

}  // namespace muster::cluster
