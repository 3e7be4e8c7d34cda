#pragma once
// Which of a run's checkpoints is its best: each holds what the trainer remembered when it was
// saved, as "best_step" and "best_metric" of its state (train/progress.h). The best evaluation's
// weights need not be there: a disk that was busy, or losses that ran away, keep them from being
// saved. Pure.

#include <optional>
#include <string_view>
#include <vector>

#include "muster/base/ids.h"
#include "muster/checkpoint/survey.h"

namespace muster::checkpoint {

// After which step the best evaluation was. Of a state that names none: nothing.
std::optional<Step> remembered_best(std::string_view state);

// What the newest whole checkpoint of all remembers; empty: there is none.
std::string_view newest_state(const std::vector<Found>& all);

// The checkpoint of that step, or else the last one before it that was the best when it was saved.
// Null where there is none.
const Found* find_best(const std::vector<Found>& all, std::string_view state);

}  // namespace muster::checkpoint
