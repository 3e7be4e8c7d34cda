#pragma once
// How long a worker may be silent before it counts as dead, learnt from how regularly it is heard
// of: a loaded machine that beats unevenly is given longer, a quiet one is missed sooner. In the
// spirit of the φ accrual detector (Hayashibara et al., SRDS 2004), with the longest recent gap in
// place of a distribution. A value; pure.

#include <cstdint>

#include "muster/base/clock.h"

namespace muster::cluster {

class Silence {
 public:
  void heard(TimePoint now) noexcept;
  // Nobody listened until now: as if heard, but nothing is learnt of it.
  void excuse(TimePoint now) noexcept { last_ = now; }
  TimePoint last_heard() const noexcept { return last_; }

  // Several of the longest recent gaps, at least a second and a tenth of `most`, at most `most`,
  // which it is until enough was heard to tell.
  Duration patience(Duration most) const noexcept;

 private:
  TimePoint last_{};
  Duration longest_{0};  // fades, so that one hiccup is forgotten
  std::int32_t count_ = 0;
};

}  // namespace muster::cluster
