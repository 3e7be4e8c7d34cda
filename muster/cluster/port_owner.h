#pragma once
// Which job it is that meets at a port, by what its first rank says of it in the store there: ranks
// of another job that was given the same port learn of it, and go no further. Two jobs that are
// alike in all that a rank is told (its variables and its command) cannot be told apart.

#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/cluster/started_by.h"
#include "muster/cluster/store.h"
#include "muster/net/network.h"

namespace muster::cluster {

// Of a job as one of its processes knows it.
struct MeetingProcess {
  std::string host = {};
  std::int32_t pid = 0;
  // What it runs, equal on ranks of one job as a rule; empty: it cannot say.
  std::string program = {};
};

// Rank 0, whose store it is, or its launcher's. `store`: that of all jobs at this port, in all that
// follows.
Status own_port(KvStore& store, const StartedBy& by, const MeetingProcess& self, Deadline deadline);

// Another rank, before it does anything else there; waits for rank 0. kUnavailable: the port is
// another job's, and whose.
Status check_port_owner(KvStore& store, const StartedBy& by, const MeetingProcess& self,
                        Deadline deadline);

// Rank 0 that cannot listen at the port since another job's does: leaves word there, by which other
// ranks of its own may know the port for another's. The Error says whose it is; nothing: no such
// job says so by `deadline`.
std::optional<Error> contest_port(KvStore& store, const StartedBy& by, const MeetingProcess& self,
                                  Deadline deadline);

// The job whose rank 0 has left word, for a person, where nothing but its command tells its ranks
// from those of `by`; empty: there is none.
std::string contender_at_port(KvStore& store, const StartedBy& by, Deadline deadline);

// Why a second process of this rank is not let in.
std::string seat_is_taken(const net::Address& meeting, std::int32_t rank, const std::string& host,
                          std::int32_t pid);

}  // namespace muster::cluster
