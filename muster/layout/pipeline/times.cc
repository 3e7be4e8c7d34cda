#include "muster/layout/pipeline/times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "muster/base/check.h"
#include "muster/base/ids.h"

namespace muster::layout {
namespace {

// For every micro-batch and chunk.
template <class T>
class Table {
 public:
  explicit Table(const PipelineSchedule& schedule)
      : chunks_(static_cast<std::size_t>(schedule.chunks())),
        cells_(chunks_ * static_cast<std::size_t>(schedule.micro_batches)) {}
  T& at(MicroBatch micro_batch, Chunk chunk) {
    return cells_.at(static_cast<std::size_t>(micro_batch) * chunks_ +
                     static_cast<std::size_t>(chunk));
  }

 private:
  std::size_t chunks_;
  std::vector<T> cells_;
};

using Moment = std::optional<Duration>;  // none: not yet

// What an action waits for, and since when it is there.
struct Need {
  std::string_view what;
  Chunk chunk;
  Moment there;
};

class Player {
 public:
  Player(const PipelineSchedule& schedule, const PipelineCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        outputs_(schedule),
        arrived_outputs_(schedule),
        gradients_(schedule),
        arrived_gradients_(schedule),
        free_(schedule.actions.size()),
        times_(schedule.actions.size()) {}

  Result<ActionTimes> play() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t stage = 0; stage < times_.size(); ++stage)
        while (step(stage)) moved = true;
    }
    for (std::size_t stage = 0; stage < times_.size(); ++stage)
      if (times_[stage].size() < schedule_.actions[stage].size()) return deadlock();
    return std::move(times_);
  }

 private:
  std::vector<Need> needs(const Action& action);
  bool step(std::size_t stage);
  void finish(const Action& action, Duration end);
  Duration arrival(const Message& message, Duration sent);
  Error deadlock();

  const PipelineSchedule& schedule_;
  const PipelineCosts& costs_;
  // When forward and backward have ended, and when the chunk next to it has what they give.
  Table<Moment> outputs_, arrived_outputs_, gradients_, arrived_gradients_;
  std::map<std::pair<Stage, Stage>, Duration> link_free_;
  std::vector<Duration> free_;  // each stage, from then on
  ActionTimes times_;
};

std::vector<Need> Player::needs(const Action& action) {
  const auto& [kind, micro_batch, chunk] = action;
  const Chunk above{to_int(chunk) + 1};
  const Chunk below{to_int(chunk) - 1};
  if (kind == ActionKind::kForward) {
    if (to_int(chunk) == 0) return {};
    return {{"the forward", below, arrived_outputs_.at(micro_batch, below)}};
  }
  if (kind == ActionKind::kBackwardWeight)
    return {{"the backward for the input", chunk, gradients_.at(micro_batch, chunk)}};
  std::vector<Need> all = {{"the forward", chunk, outputs_.at(micro_batch, chunk)}};
  if (to_int(above) < schedule_.chunks())
    all.push_back({"the backward", above, arrived_gradients_.at(micro_batch, above)});
  return all;
}

bool Player::step(std::size_t stage) {
  const auto& actions = schedule_.actions[stage];
  if (times_[stage].size() == actions.size()) return false;
  const Action& action = actions[times_[stage].size()];
  Duration begin = free_[stage];
  for (const Need& need : needs(action)) {
    if (!need.there) return false;
    begin = std::max(begin, *need.there);
  }
  const Duration end =
      begin + costs_.chunks[static_cast<std::size_t>(action.chunk)].of(action.kind);
  times_[stage].push_back({begin, end});
  free_[stage] = end;
  finish(action, end);
  return true;
}

void Player::finish(const Action& action, Duration end) {
  if (action.kind == ActionKind::kBackwardWeight) return;
  const bool forward = action.kind == ActionKind::kForward;
  const auto message = sent_after(schedule_, action);
  (forward ? outputs_ : gradients_).at(action.micro_batch, action.chunk) = end;
  (forward ? arrived_outputs_ : arrived_gradients_).at(action.micro_batch, action.chunk) =
      message ? arrival(*message, end) : end;
}

Duration Player::arrival(const Message& message, Duration sent) {
  Duration& free = link_free_[{message.from, message.to}];
  const auto bytes = costs_.chunks[static_cast<std::size_t>(message.boundary)].output_bytes;
  free = std::max(free, sent) + costs_.link.transfer(bytes);
  return free + costs_.link.latency;
}

Error Player::deadlock() {
  std::string waits;
  for (std::size_t stage = 0; stage < times_.size(); ++stage) {
    if (times_[stage].size() == schedule_.actions[stage].size()) continue;
    const Action& action = schedule_.actions[stage][times_[stage].size()];
    const auto all = needs(action);
    const auto missing =
        std::ranges::find_if(all, [](const Need& need) { return !need.there.has_value(); });
    waits += fmt::format("{}stage {} is at the {} and waits for {} on chunk {}",
                         waits.empty() ? "" : "; ", stage, describe(action), missing->what,
                         to_int(missing->chunk));
  }
  return fail(ErrorCode::kInvalid, fmt::format("[layout/pipeline] the {} schedule never ends: {}",
                                               to_string(schedule_.kind), waits));
}

}  // namespace

Duration ChunkCost::of(ActionKind kind) const noexcept {
  switch (kind) {
    case ActionKind::kForward:
      return forward;
    case ActionKind::kBackward:
      return backward_input + backward_weight;
    case ActionKind::kBackwardInput:
      return backward_input;
    case ActionKind::kBackwardWeight:
      return backward_weight;
  }
  return {};
}

Duration LinkCost::transfer(std::uint64_t bytes) const noexcept {
  const double seconds = static_cast<double>(bytes) / bytes_per_second;
  return Duration(static_cast<std::int64_t>(std::ceil(seconds * 1e9)));
}

PipelineCosts equal_costs(const ChunkCost& model, std::int32_t chunks) {
  const ChunkCost part{model.forward / chunks, model.backward_input / chunks,
                       model.backward_weight / chunks, model.output_bytes};
  return {std::vector(static_cast<std::size_t>(chunks), part), {}};
}

Result<ActionTimes> play(const PipelineSchedule& schedule, const PipelineCosts& costs) {
  MUSTER_CHECK(std::ssize(costs.chunks) == schedule.chunks(), "a cost for each chunk");
  return Player(schedule, costs).play();
}

Duration makespan(const ActionTimes& times) noexcept {
  Duration end{};
  for (const auto& stage : times)
    if (!stage.empty()) end = std::max(end, stage.back().end);
  return end;
}

Duration step_period(const ActionTimes& times) noexcept {
  Duration longest{};
  for (const auto& stage : times)
    if (!stage.empty()) longest = std::max(longest, stage.back().end - stage.front().begin);
  return longest;
}

}  // namespace muster::layout
