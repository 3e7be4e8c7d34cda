#include "muster/data/step_plan.h"

#include <algorithm>

#include "muster/base/check.h"
#include "muster/base/round_up.h"

namespace muster::data {

StepPlan::StepPlan(const StepPlanOptions& options) : options_(options) {
  MUSTER_CHECK(options.epoch_size >= 1, "an epoch needs samples");
  MUSTER_CHECK(options.batch >= 1, "a step needs samples");
  MUSTER_CHECK(options.slices >= 1, "a step needs slices");
}

Share StepPlan::step(const Cursor& cursor) const noexcept {
  return {cursor.position, std::min(cursor.position + options_.batch, options_.epoch_size)};
}

Cursor StepPlan::after(const Cursor& cursor) const noexcept {
  const Share range = step(cursor);
  Cursor next = cursor;
  next.samples_seen += range.size();
  next.position = range.end;
  if (next.position == options_.epoch_size) {
    next.position = 0;
    ++next.epoch;
  }
  return next;
}

Share StepPlan::slice(const Share& step, SliceIndex slice) const noexcept {
  const Share share = even_share(step.size(), options_.slices, to_int(slice));
  return {step.begin + share.begin, step.begin + share.end};
}

std::int64_t StepPlan::steps_per_epoch() const noexcept { return steps_left_in_epoch(Cursor{}); }

Cursor StepPlan::at(Step committed) const noexcept {
  const std::int64_t steps = to_int(committed);
  const std::int64_t epoch = steps / steps_per_epoch();
  const std::int64_t position = steps % steps_per_epoch() * options_.batch;
  return {epoch, position, epoch * options_.epoch_size + position};
}

std::int64_t StepPlan::steps_left_in_epoch(const Cursor& cursor) const noexcept {
  return ceil_div(options_.epoch_size - cursor.position, options_.batch);
}

}  // namespace muster::data
