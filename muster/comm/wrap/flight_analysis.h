#pragma once
// What the flight recorders of several ranks say together: who missed which operation, whose call
// differed, or that all are in the same one. Plain data; pure.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/ids.h"
#include "muster/comm/awaited.h"

namespace muster::comm {

// An operation on one rank, seen at the moment when the record was taken.
struct FlightCall {
  std::uint64_t number = 0;  // FlightEntry::turn
  std::string op = {};
  std::string label = {};
  Duration age{};                     // since it was called
  std::optional<Duration> took = {};  // none: in flight
  bool failed = false;
  std::optional<Duration> waited = {};    // how long a thread has blocked for it, or did
  std::optional<Awaited> waits_for = {};  // as FlightEntry's
  friend bool operator==(const FlightCall&, const FlightCall&) = default;
};

std::string describe(const FlightCall& call);  // "all_reduce sum F32 [1000] (gradients/0), #120"

struct FlightMessage {
  bool sends = false;  // this rank does
  Rank peer{0};        // of the whole group, as all ranks here
  std::uint32_t tag = 0;
  std::string part = {};  // FlightGroup::id; empty: of the whole group
  FlightCall call = {};
};

struct FlightPart {  // of the whole group
  std::string id;
  std::vector<Rank> members = {};
  std::vector<FlightCall> calls = {};  // collectives, ascending numbers
};

struct FlightPass {  // that a lane is in
  std::string what;  // "forward of slice 3"
  Duration age{};
  bool waits = false;  // its thread blocks for an operation
};

struct FlightRecord {  // of one rank in one generation
  Rank rank{0};
  std::int32_t size = 1;  // ranks of the group
  Generation generation{0};
  std::vector<FlightCall> calls = {};  // collectives of the whole group: the last ones, ascending
  // Of what each stream and part had to do: all that is under way or failed, and the last that was
  // done before it.
  std::vector<FlightMessage> messages = {};
  std::vector<FlightPart> parts = {};
  std::vector<FlightPass> passes = {};
};

// Under way; what failed counts as well, since a record may be taken after the end.
bool is_unfinished(const FlightCall& call);
// It is, and a thread blocks for it.
bool is_awaited(const FlightCall& call);

// Who holds up a collective that all of its ranks are in.
struct InsideOf {
  std::vector<Rank> ranks = {};  // the others wait for these; none: nobody can be named
  bool gets_on = false;          // what was seen of it at different times does not fit together
  bool of_connections = false;   // each waits for another one, and nothing comes
};
// `calls`: that collective as each of its ranks has it.
InsideOf look_inside(const std::map<Rank, const FlightCall*>& calls);

// Those of the newest generation among `records`, by rank.
std::vector<const FlightRecord*> newest_records(const std::vector<FlightRecord>& records);

// What a text calls the ranks that it speaks of. A value.
class RankWording {
 public:
  RankWording() = default;  // by their rank
  // By numbers that they keep when their rank changes; by their rank where one of those that are
  // named together has none.
  RankWording(std::string_view word, std::map<Rank, std::int32_t> numbers);

  std::string one(Rank rank) const { return list({rank}); }  // "worker 2"
  std::string list(const std::vector<Rank>& ranks) const;    // "workers 0, 1", ascending
  std::string all() const;                                   // "all workers"

 private:
  std::string word_ = "rank";
  std::map<Rank, std::int32_t> numbers_ = {};
};

struct FlightFinding {
  enum class Kind : std::uint8_t {
    kMissed,       // `ranks` have not called what the others wait in
    kSilent,       // of `ranks` there is no record, and all the others wait
    kDiffers,      // `ranks` called something else than the lowest rank
    kStandsStill,  // all are in it, and wait for `ranks`
    kNoProgress    // all are in it, and nobody can be named
  };
  Kind kind = Kind::kMissed;
  FlightCall call = {};  // of one who waits, the longest; where all are in it, the shortest
  std::vector<Rank> ranks = {};
  std::vector<Rank> waiting = {};  // in it
  std::string other = {};          // kDiffers: what ranks.front() called
  bool of_connections = false;     // kNoProgress: they carry nothing
};

// Of the newest generation among `records`, at most one finding of a kind: what blocks first. An
// operation that failed counts as one that is waited in: a record may be taken after the end.
// Collectives of the whole group alone; who waits for whom besides: wait_graph.h.
std::vector<FlightFinding> analyse(const std::vector<FlightRecord>& records);

// Why nobody in a collective gets on where nobody can be named.
std::string_view reason_of_none(bool of_connections);

// "ranks 0, 1 have waited 12 s in all_reduce sum F32 [1000] (gradients/0), #120 of generation 2,
// which rank 2 has not called"
std::string describe(const FlightFinding& finding, Generation generation,
                     const RankWording& names = {});

}  // namespace muster::comm
