#pragma once
// What the flight recorders of several ranks say together: who missed which operation, whose call
// differed, or that all are in the same one. Plain data; pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/ids.h"

namespace muster::comm {

// A collective of the whole group on one rank, seen at the moment when the record was taken.
struct FlightCall {
  std::uint64_t number = 0;  // the same on every rank; from 1
  std::string op = {};
  std::string label = {};
  Duration age{};                     // since it was called
  std::optional<Duration> took = {};  // none: in flight
  bool failed = false;
  friend bool operator==(const FlightCall&, const FlightCall&) = default;
};

std::string describe(const FlightCall& call);  // "all_reduce sum F32 [1000] (gradients/0), #120"

struct FlightRecord {  // of one rank in one generation
  Rank rank{0};
  std::int32_t size = 1;  // ranks of the group
  Generation generation{0};
  std::vector<FlightCall> calls = {};  // the last ones, ascending numbers
};

struct FlightFinding {
  enum class Kind : std::uint8_t {
    kMissed,     // `ranks` have not called what the others wait in
    kSilent,     // of `ranks` there is no record, and all the others wait
    kDiffers,    // `ranks` called something else than the lowest rank
    kNoProgress  // all are in it: it is the way between them that does not get on
  };
  Kind kind = Kind::kMissed;
  FlightCall call = {};  // of one who waits, the longest
  std::vector<Rank> ranks = {};
  std::vector<Rank> waiting = {};  // in it
  std::string other = {};          // kDiffers: what ranks.front() called
};

// Of the newest generation among `records`, at most one finding of a kind: what blocks first. An
// operation that failed counts as one that is waited in: a record may be taken after the end.
std::vector<FlightFinding> analyse(const std::vector<FlightRecord>& records);

// "ranks 0, 1 have waited 12 s in all_reduce sum F32 [1000] (gradients/0), #120 of generation 2,
// which rank 2 has not called"
std::string describe(const FlightFinding& finding, Generation generation);

}  // namespace muster::comm
