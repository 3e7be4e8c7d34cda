#pragma once
// What the way between two ranks costs, timed by messages between them: one end times, the other
// answers. Used over a transport before a group's first collective (measure_costs.h), and over a
// communicator where the engine has no transport (shared memory).

#include <span>

#include "muster/base/clock.h"
#include "muster/comm/communicator.h"
#include "muster/comm/cost.h"

namespace muster::comm {

struct MeasuredLink {
  LinkCosts costs;
  double per_message = 0;  // seconds, see CostTable
  friend bool operator==(const MeasuredLink&, const MeasuredLink&) = default;
};

// A rank's messages with one other, in order in both directions. Used by one thread.
class TimedLine {
 public:
  virtual ~TimedLine() = default;
  virtual Rank peer() const noexcept = 0;
  virtual const Group& group() const noexcept = 0;
  virtual Status send(std::span<std::byte> bytes) = 0;  // they stay untouched until settle()
  virtual Status settle() = 0;
  virtual Status take(std::span<std::byte> into) = 0;  // the next message
  // Whether to answer on: its error ends what a peer that never stops would not.
  virtual Status go_on() const = 0;
};

// Seconds, by `clock`. `least_per_byte`: what no link is faster than, a copy in memory.
Result<MeasuredLink> time_link(TimedLine& line, Clock& clock, double least_per_byte);
// Instead of that: nothing is to be timed.
Status skip_link(TimedLine& line);
// The other end, of both.
Status answer_link(TimedLine& line);

// The two ends by messages (Send, Recv) of `communicator` with `peer`, for `limit` at most; its
// errors are those of the messages.
Result<MeasuredLink> time_messages(Communicator& communicator, Rank peer, Clock& clock,
                                   Duration limit, double least_per_byte);
Status answer_messages(Communicator& communicator, Rank peer, Clock& clock, Duration limit);

}  // namespace muster::comm
