#pragma once
// Who belongs to the next generation: a pure decision over what the coordinator knows. No clock,
// lock or I/O, and always a reason, which the coordinator logs when it changes. (After torchft's
// quorum computation.)

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/ids.h"
#include "muster/cluster/messages.h"
#include "muster/cluster/silence.h"

namespace muster::cluster {

// What is known of one worker that has joined.
struct Candidate {
  WorkerInfo info;
  TimePoint joined_at{};
  Silence silence;
  bool connected = true;
  bool leaving = false;  // said Leave
  // Said Drain: alive, and no member of the next generation, unless it alone could hand the state
  // to those that would be left.
  bool draining = false;
  bool whole = false;    // it has the state; not one that has just come
  bool cut_off = false;  // alive, but others cannot work with it
  bool reaches = true;   // and is reached by those whom it would work with; else it is not let in
  bool lost = false;     // given up, for one of these reasons: as this process it stays so
  // Nobody else is heard of who has the state: to take a hiccup for a death would lose it.
  bool needed = false;
};

struct MembershipView {
  std::vector<Candidate> candidates;  // in any order
  std::vector<std::int32_t> current;  // workers of the present generation by rank; empty: none yet
  // Those of `current` that were lost and have come again, as new processes without the state.
  std::vector<std::int32_t> replaced;
  std::optional<TimePoint> last_join;  // when somebody joined last
};

struct MembershipPolicy {
  std::int32_t min_workers = 1;
  std::int32_t max_workers = 1;  // min == max: a fixed membership
  // Of each generation more than half are in the next one, by number: who comes again counts, and
  // so does who went as it was told to. Without effect with keeps_ranks, where all are needed.
  bool majority = false;
  std::int32_t start_workers = 1;  // the first generation waits for so many, standbys included
  Duration heartbeat_timeout = std::chrono::seconds(10);  // the most; with `learns` often less
  bool learns = false;  // how long a worker that is not needed may be silent, from its heartbeats
  // Not of workers of this number and above, whom nobody starts anew: there a mistake is dear.
  std::int32_t irreplaceable_from = std::numeric_limits<std::int32_t>::max();
  // Each member has a part of the state, by its rank: there are as many members as in the first
  // generation, none goes on without another, and who comes again takes the rank that it had.
  bool keeps_ranks = false;
  // With keeps_ranks: of max_workers so many are no members, and wait for the rank of one that is
  // lost. Without, they are members.
  std::int32_t standbys = 0;
  // Below max_workers, how long newcomers wait for more of them, so that all come at one change.
  Duration settle = std::chrono::milliseconds(200);
};

struct MembershipDecision {
  // Workers in rank order; equal to `current`: nothing changes. None: no generation is possible
  // now.
  std::optional<std::vector<std::int32_t>> members;
  std::string reason;
  bool planned = false;  // nobody was lost: the present generation may finish its step
  // Of `members` those that are to go, and stay until one of the others has the state as well.
  std::vector<std::int32_t> kept = {};
};

// Survivors keep their order and come first, newcomers follow by worker number (with keeps_ranks:
// everybody keeps his rank, and a standby, or else the same worker anew, gets that of one that is
// lost); but the first rank is one that sees the run's folder
// (WorkerInfo::can_lead): without one nobody could save. Where all of the present generation are
// gone, newcomers alone are the next one: it has no state, and goes back to a checkpoint. Two
// halves of a split never both go on: there is one coordinator, it counts those whom it hears, and
// whoever does not hear from it stops. `majority` has those who are left wait where they are few.
MembershipDecision decide_membership(TimePoint now, const MembershipView& known,
                                     const MembershipPolicy& policy);

// Fewer never make a first generation.
std::int32_t least_for_first_generation(const MembershipPolicy& policy) noexcept;

// Says of each whether it is needed: it is silent for longer than is usual of it, and nobody who
// has the state was heard of in the meantime. With `learns` the silence until now does not count of
// one that no longer is.
void note_needed(TimePoint now, const std::vector<Candidate*>& candidates,
                 const MembershipPolicy& policy);

// Connected, not leaving, within reach, not given up, and heard of within its patience.
bool is_alive(TimePoint now, const Candidate& candidate, const MembershipPolicy& policy);
Duration patience(const Candidate& candidate, const MembershipPolicy& policy) noexcept;

}  // namespace muster::cluster
