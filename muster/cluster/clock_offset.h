#pragma once
// ClockOffset: how far another process's steady clock is ahead of this one's, by asking it for the
// time. The quickest of the last exchanges counts: the truth lies within half of how long it took.
// (Cristian, "Probabilistic clock synchronization", 1989; NTP's clock filter, RFC 5905.) Where 0
// is within that bound it is 0, as on one host, where both read the same clock. Pure.

#include <cstddef>
#include <deque>
#include <optional>

#include "muster/base/clock.h"

namespace muster::cluster {

class ClockOffset {
 public:
  // By this clock asked and answered, by the other `told` in between.
  void note(TimePoint asked, TimePoint told, TimePoint answered);
  // What to add to a time of this clock; none: nobody has answered.
  std::optional<Duration> value() const;

 private:
  struct Exchange {
    Duration took;
    Duration offset;
  };
  // Steady clocks drift by some 20 µs a second: what is older than these is worth less.
  static constexpr std::size_t kKept = 32;
  std::deque<Exchange> last_;
};

}  // namespace muster::cluster
