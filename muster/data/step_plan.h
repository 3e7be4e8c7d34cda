#pragma once
// Which samples a step consumes and how they are cut into slices: pure arithmetic on positions
// within an epoch. It knows nothing of workers, so it is the same at any number of them.

#include <cstdint>

#include "muster/base/ids.h"
#include "muster/base/share.h"

namespace muster::data {

// Progress through the data. Committed with the step; all that resuming needs.
struct Cursor {
  std::int64_t epoch = 0;
  std::int64_t position = 0;      // samples of this epoch consumed, always < the epoch's size
  std::int64_t samples_seen = 0;  // since the run began
  friend bool operator==(const Cursor&, const Cursor&) = default;
};

struct StepPlanOptions {
  std::int64_t epoch_size = 0;  // samples, >= 1
  std::int64_t batch = 0;       // samples of a full step, >= 1
  std::int32_t slices = 1;      // virtual workers, >= 1
};

class StepPlan {  // immutable, so thread-safe
 public:
  explicit StepPlan(const StepPlanOptions& options);

  // Positions within cursor.epoch that the next step consumes: never empty, never across the end of
  // the epoch; the last step of an epoch takes exactly what is left.
  Share step(const Cursor& cursor) const noexcept;
  Cursor after(const Cursor& cursor) const noexcept;  // the cursor once that step is committed

  // The part of `step` that a slice computes; empty where there are more slices than samples.
  Share slice(const Share& step, SliceIndex slice) const noexcept;

  std::int64_t steps_per_epoch() const noexcept;
  Cursor at(Step committed) const noexcept;  // after so many steps of an undisturbed run, in O(1)
  // Steps that begin between `cursor` and the end of its epoch.
  std::int64_t steps_left_in_epoch(const Cursor& cursor) const noexcept;

  const StepPlanOptions& options() const noexcept { return options_; }

 private:
  StepPlanOptions options_;
};

}  // namespace muster::data
