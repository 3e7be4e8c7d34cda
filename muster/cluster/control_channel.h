#pragma once
// Control messages over one Connection: each message one frame of kind kControlFrame. The members
// of a Welcome are a frame of their own before it, whose bytes all to whom they are told share: all
// of them, or what is new in them since the last Welcome on this connection.

#include <functional>
#include <memory>
#include <vector>

#include "muster/cluster/messages.h"
#include "muster/net/network.h"

namespace muster::cluster {

inline constexpr net::FrameKind kMembersFrame = 2;

// `told`: the members of the last Welcome on this connection, and of this one when it returns.
// None: all are told again.
void send_message(net::Connection& connection, const Message& message, Rank sender = kNoRank,
                  MemberList* told = nullptr);

// Calls back on the loop's thread. The callbacks must not own the connection. After a payload that
// is no message, on_bad_message is expected to close it.
struct ControlEvents {
  std::function<void(const Message&)> on_message;
  std::function<void(const Error&)> on_bad_message;
  std::function<void(const Error&)> on_close;
};
// `lists`: shared with others of this process; none: what comes is read for this one alone.
std::shared_ptr<net::Receiver> create_control_receiver(ControlEvents events,
                                                       std::shared_ptr<MemberLists> lists = {});

}  // namespace muster::cluster
