#pragma once
// For the test of every path: what may happen to the workers of a job, and what becomes of them.

#include <cstdint>

#include "muster/cluster/shared_values.h"

namespace muster::cluster::paths {

enum class Status : std::uint8_t { kHere, kSilent, kDraining, kLeft, kGone };
enum class Event : std::uint8_t {
  kBreak,
  kFallSilent,
  kWake,
  kDrain,
  kResign,
  kLeave,
  kComeAgain,
  kSuspect,
  kQuarantine,
  kQuiet,
  kGetState  // it may come between any two of the others, and is none of a path's six
};
inline constexpr Event kAll[] = {
    Event::kBreak, Event::kFallSilent, Event::kWake,    Event::kDrain,      Event::kResign,
    Event::kLeave, Event::kComeAgain,  Event::kSuspect, Event::kQuarantine, Event::kQuiet};

struct Job {
  std::int32_t workers;
  std::int32_t least;
  std::int32_t later = 0;  // so many of the workers are not there at the beginning
  bool keeps_ranks = false;
  std::int32_t standbys = 0;  // so many of the workers have no rank
  bool majority = false;      // see MembershipPolicy
};

struct Worker {
  Status status = Status::kHere;
  PeerId peer = 0;         // of its connection
  bool has_state = false;  // as this process
  bool anew = false;       // a member that has come again as another process since
  bool newcomer = false;   // of the present generation
  bool given_up = false;   // silent, or out of reach; as this process it stays so
  bool drains = false;     // it wishes to go,
  bool dismissed = false;  // and may
  bool cast_out = false;   // told that the others go on without it
};

}  // namespace muster::cluster::paths
