#pragma once
// How long to wait before another try: twice as long each time, up to a longest pause, and by
// chance up to half less, so that many who failed at one moment do not all come again at one.

#include <algorithm>
#include <cstdint>

#include "muster/base/clock.h"
#include "muster/base/random.h"

namespace muster {

// One thread. `entropy` outlives it.
class Backoff {
 public:
  Backoff(Duration first, Duration longest, Entropy& entropy = system_entropy())
      : next_(first), longest_(longest), entropy_(entropy) {}

  Duration next() {
    const Duration whole = std::min(next_, longest_);
    next_ = std::min(2 * whole, longest_);
    const double less = 0.5 * static_cast<double>(entropy_.next() >> 11) * 0x1.0p-53;
    return whole - Duration(static_cast<Duration::rep>(less * static_cast<double>(whole.count())));
  }

 private:
  Duration next_;
  const Duration longest_;
  Entropy& entropy_;
};

}  // namespace muster
