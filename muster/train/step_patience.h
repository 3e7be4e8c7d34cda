#pragma once
// How long a rank waits for the others' part of a step before it takes one of them for stuck:
// learnt from how long steps take. A worker can hang while its heart beats, in a lock or a device;
// that only its peers notice. One that waits for its data tells so, and is waited for longer
// (cluster/coordinator.h). A value; pure.

#include <cstdint>

#include "muster/base/clock.h"

namespace muster::train {

class StepPatience {
 public:
  // A step with the wait for whoever was slowest in it.
  void took(Duration step) noexcept;
  // Something else comes before the next step (an evaluation, a checkpoint), which may hold some
  // ranks up: the next steps get all the time there is, and nothing is learnt from them.
  void disturb() noexcept { disturbed_ = kDisturbed; }

  // The next steps are others': those of before tell only what to expect of later ones.
  void begin_generation() noexcept;

  // Many times the longest recent step, some seconds and a share of `most` at least; `most` until
  // enough steps were taken to tell.
  Duration limit(Duration most) const noexcept;

 private:
  static constexpr std::int32_t kDisturbed = 2;  // steps: a copy of the state ends in the second
  Duration longest_{0};                          // fades, so that one hiccup is forgotten
  std::int32_t count_ = 0;
  std::int32_t disturbed_ = 0;
};

}  // namespace muster::train
