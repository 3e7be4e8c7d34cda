#pragma once
// Where a rank's step loop stands: besides tensors all that another rank needs to go on in its
// place. Plain data.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/ids.h"
#include "muster/base/result.h"
#include "muster/observe/event.h"
#include "muster/parallel/flags.h"
#include "muster/train/divergence.h"
#include "muster/train/pace.h"
#include "muster/train/progress.h"

namespace muster::train {

enum class Next : std::uint8_t { kGoOn, kStop, kStopEarly, kLeave };

// A save beside the training, whose end only the first rank of that generation is told.
struct BegunSave {
  Step step{0};
  Generation generation{0};
  friend bool operator==(const BegunSave&, const BegunSave&) = default;
};

struct Position {
  Progress progress;
  bool settled = true;    // what is due after the committed step, evaluation and saves, is done
  parallel::Flags flags;  // of the committed step
  Next next = Next::kGoOn;
  std::optional<Step> evaluated;  // last
  std::vector<observe::Metric> last_evaluation;
  std::int64_t rollbacks = 0;  // to a step where all ranks were the same
  std::vector<Pace> paces;     // when they were last compared
  LossTrend losses;
  bool owes_save = false;  // one was due in a doubtful state, or while another was under way
  std::optional<BegunSave> begun;  // last
  // What was told last, oldest first: the first rank may die before it has told it.
  std::deque<observe::Record> rows;
  static constexpr std::size_t kMostRows = 128;
};

// kCorrupt for what encode() did not write.
std::string encode(const Position& position);
Result<Position> decode_position(std::string_view text);

}  // namespace muster::train
