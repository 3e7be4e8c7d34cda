#pragma once
// How processes that another launcher has started find the first of them, which keeps what all
// others come to: it tells of that place through a store that all can reach.

#include <optional>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/cluster/port_owner.h"
#include "muster/cluster/started_by.h"
#include "muster/net/credentials.h"
#include "muster/net/network.h"

namespace muster::cluster {

// In the store, of the text below; each start that may meet there has its own.
std::string meeting_key(const StartedBy& by);

// Where the first rank listens, so that the others reach it by the name they have for it.
net::Address meeting_listen_address(const StartedBy& by);
bool is_loopback(const std::string& host);

// What rank 0, whose process this is, is to warn of: that other hosts may not find it at `meeting`.
// Empty: nothing speaks against it. May ask the name service.
std::string doubt_about_meeting(const net::Address& meeting);

// Where others reach this process: what MUSTER_LOCAL_ADDR says, or this host's address on the way
// to their coordinator. May ask the name service. kUnavailable: no way leads there, or the variable
// names no address of this host.
Result<std::string> address_for_others(const VariableLookup& variable,
                                       const net::Address& coordinator);

// Those that all have (MUSTER_CREDENTIALS), or new ones, which go through the store.
struct MeetingCredentials {
  net::Credentials credentials;
  bool are_known = false;
};
Result<MeetingCredentials> meeting_credentials(WallTime now);

// Of the first rank's place there; where the credentials are known they are not told.
std::string meeting_text(const net::Address& place, const MeetingCredentials& credentials);

struct Meeting {
  net::Address place;
  std::string credentials;  // net::to_text
};
// kInvalid: no such text, or known credentials here and not there, or the other way round.
Result<Meeting> read_meeting(const std::string& text);

// How long all wait for each other.
struct MeetingPatience {
  Duration limit{};
  std::string_view said_by;  // the variable or the field in which another one can be said
};
// What MUSTER_JOIN_TIMEOUT says; else that of the job that all are given; else a minute. kInvalid:
// the variable holds no duration.
Result<MeetingPatience> meeting_patience(const VariableLookup& variable,
                                         std::optional<Duration> of_job = {});

// What a program that can reach torch's store is asked to do there (muster-worker --rendezvous):
// rank 0 tells `text` and keeps the store, the others find it. One line.
struct StoreErrand {
  StartedBy by;
  MeetingProcess self;
  Duration patience{};
  std::string text;
};
std::string to_line(const StoreErrand& errand);
Result<StoreErrand> read_errand(std::string_view line);

}  // namespace muster::cluster
