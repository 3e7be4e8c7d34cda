#include "muster/layout/pipeline/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "muster/base/ids.h"
#include "muster/layout/pipeline/times.h"

namespace muster::layout {
namespace {

Error invalid(const PipelineSchedule& schedule, const std::string& why) {
  return fail(ErrorCode::kInvalid,
              fmt::format("[layout/pipeline] {} schedule: {}", to_string(schedule.kind), why));
}

Error invalid(const PipelineSchedule& schedule, std::size_t stage, const Action& action,
              std::string_view why) {
  return invalid(schedule, fmt::format("stage {}: {} {}", stage, describe(action), why));
}

Status check_placement(const PipelineSchedule& schedule) {
  std::set<Stage> used;
  for (std::int32_t chunk = 0; chunk < schedule.chunks(); ++chunk) {
    const Stage stage = schedule.stage(Chunk{chunk});
    used.insert(stage);
    if (to_int(stage) < 0 || to_int(stage) >= schedule.stages())
      return invalid(schedule, fmt::format("chunk {} is on stage {} of {}", chunk, to_int(stage),
                                           schedule.stages()));
  }
  for (std::int32_t stage = 0; stage < schedule.stages(); ++stage)
    if (!used.contains(Stage{stage}))
      return invalid(schedule, fmt::format("stage {} has no chunk", stage));
  if (used.empty()) return invalid(schedule, "it has no stages");
  return ok();
}

bool in_range(const PipelineSchedule& schedule, const Action& action) {
  return to_int(action.chunk) >= 0 && to_int(action.chunk) < schedule.chunks() &&
         to_int(action.micro_batch) >= 0 && to_int(action.micro_batch) < schedule.micro_batches;
}

Status check_places(const PipelineSchedule& schedule, std::set<Action>& seen) {
  for (std::size_t stage = 0; stage < schedule.actions.size(); ++stage) {
    for (const Action& action : schedule.actions[stage]) {
      if (!in_range(schedule, action))
        return invalid(schedule, stage, action,
                       fmt::format("does not exist: there are {} micro-batches and {} chunks",
                                   schedule.micro_batches, schedule.chunks()));
      if (schedule.stage(action.chunk) != Stage{static_cast<std::int32_t>(stage)})
        return invalid(schedule, stage, action,
                       fmt::format("belongs to stage {}", to_int(schedule.stage(action.chunk))));
      if (!seen.insert(action).second)
        return invalid(schedule, stage, action, "comes more than once");
    }
  }
  return ok();
}

// One backward, or its two parts.
Status check_completeness(const PipelineSchedule& schedule, const std::set<Action>& seen) {
  for (std::int32_t chunk = 0; chunk < schedule.chunks(); ++chunk) {
    for (std::int32_t micro_batch = 0; micro_batch < schedule.micro_batches; ++micro_batch) {
      const auto has = [&](ActionKind kind) {
        return seen.contains({kind, MicroBatch{micro_batch}, Chunk{chunk}});
      };
      const bool input = has(ActionKind::kBackwardInput);
      const bool weight = has(ActionKind::kBackwardWeight);
      const bool backward = has(ActionKind::kBackward) ? !input && !weight : input && weight;
      if (has(ActionKind::kForward) && backward) continue;
      return invalid(schedule,
                     fmt::format("micro-batch {} does not go forward and backward through chunk {} "
                                 "exactly once",
                                 micro_batch, chunk));
    }
  }
  return ok();
}

Status check_ends(const PipelineSchedule& schedule) {
  const PipelineCosts nothing{std::vector<ChunkCost>(schedule.stage_of.size()), {}};
  MUSTER_TRY(play(schedule, nothing));
  return ok();
}

using Channel = std::tuple<MessageKind, Stage, Stage>;

// Everything that passes, by channel, in the order of the senders or of the receivers.
std::map<Channel, std::vector<Message>> traffic(const PipelineSchedule& schedule, bool sent) {
  std::map<Channel, std::vector<Message>> all;
  for (const auto& actions : schedule.actions) {
    for (const Action& action : actions) {
      const auto message = sent ? sent_after(schedule, action) : received_before(schedule, action);
      if (message) all[{message->kind, message->from, message->to}].push_back(*message);
    }
  }
  return all;
}

Status check_order(const PipelineSchedule& schedule) {
  const auto sent = traffic(schedule, true);
  const auto received = traffic(schedule, false);
  for (const auto& [channel, messages] : sent) {
    const auto& wanted = received.at(channel);
    const auto [left, right] = std::ranges::mismatch(messages, wanted);
    if (left == messages.end()) continue;
    return invalid(
        schedule,
        fmt::format("stage {} sends stage {} micro-batch {} of chunk {} where it wants micro-batch "
                    "{} of chunk {}",
                    to_int(left->from), to_int(left->to), to_int(left->micro_batch),
                    to_int(left->boundary), to_int(right->micro_batch), to_int(right->boundary)));
  }
  return ok();
}

}  // namespace

Status check(const PipelineSchedule& schedule) {
  MUSTER_TRY(check_placement(schedule));
  std::set<Action> seen;
  MUSTER_TRY(check_places(schedule, seen));
  MUSTER_TRY(check_completeness(schedule, seen));
  MUSTER_TRY(check_ends(schedule));
  return check_order(schedule);
}

std::vector<std::int32_t> peak_activations(const PipelineSchedule& schedule) {
  std::vector<std::int32_t> peaks;
  for (const auto& actions : schedule.actions) {
    std::int32_t held = 0;
    std::int32_t peak = 0;
    for (const Action& action : actions) {
      if (action.kind == ActionKind::kForward) peak = std::max(peak, ++held);
      if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight)
        --held;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace muster::layout
