#include "muster/layout/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "muster/base/check.h"
#include "muster/base/ids.h"
#include "muster/base/units.h"

namespace muster::layout {
namespace {

std::string_view words(ActionKind kind) noexcept {
  switch (kind) {
    case ActionKind::kForward:
      return "forward";
    case ActionKind::kBackward:
      return "backward";
    case ActionKind::kBackwardInput:
      return "backward for the input";
    case ActionKind::kBackwardWeight:
      return "backward for the weights";
  }
  return "";
}

Chunk next(Chunk chunk) { return Chunk{to_int(chunk) + 1}; }
Chunk before(Chunk chunk) { return Chunk{to_int(chunk) - 1}; }

// Gradients flow down from the chunk after; the weights' part needs nothing from elsewhere.
bool passes_gradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput;
}

std::optional<Message> between_stages(const Message& message) {
  if (message.from == message.to) return std::nullopt;
  return message;
}

}  // namespace

std::string describe(const Action& action) {
  return fmt::format("{} of micro-batch {} on chunk {}", words(action.kind),
                     to_int(action.micro_batch), to_int(action.chunk));
}

std::string_view to_string(PipelineKind kind) noexcept {
  switch (kind) {
    case PipelineKind::kGPipe:
      return "gpipe";
    case PipelineKind::k1F1B:
      return "1f1b";
    case PipelineKind::kInterleaved:
      return "interleaved";
    case PipelineKind::kZbH1:
      return "zb_h1";
    case PipelineKind::kZbV:
      return "zb_v";
  }
  return "";
}

Result<PipelineKind> pipeline_kind_from_string(std::string_view word) {
  std::string plain;
  for (const char letter : word)
    plain +=
        letter == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  std::vector<std::string_view> names;
  for (const PipelineKind kind : kPipelineKinds) {
    if (to_string(kind) == plain) return kind;
    names.push_back(to_string(kind));
  }
  const std::string near = nearest(plain, names);
  return fail(ErrorCode::kInvalid,
              fmt::format("[layout/pipeline] no schedule `{}`; {}", word,
                          near.empty() ? "there are gpipe, 1f1b, interleaved, zb_h1, zb_v"
                                       : fmt::format("did you mean `{}`?", near)));
}

std::vector<Chunk> PipelineSchedule::chunks_of(Stage stage) const {
  std::vector<Chunk> own;
  for (std::int32_t chunk = 0; chunk < chunks(); ++chunk)
    if (this->stage(Chunk{chunk}) == stage) own.push_back(Chunk{chunk});
  return own;
}

std::vector<Stage> round_robin_placement(std::int32_t stages, std::int32_t chunks_per_stage) {
  MUSTER_CHECK(stages >= 1 && chunks_per_stage >= 1, "a pipeline has stages, and they have chunks");
  const std::int32_t chunks = stages * chunks_per_stage;
  std::vector<Stage> stage_of;
  stage_of.reserve(static_cast<std::size_t>(chunks));
  for (std::int32_t chunk = 0; chunk < chunks; ++chunk) stage_of.push_back(Stage{chunk % stages});
  return stage_of;
}

std::vector<Stage> v_placement(std::int32_t stages) {
  std::vector<Stage> stage_of = round_robin_placement(stages, 1);
  for (std::int32_t stage = stages - 1; stage >= 0; --stage) stage_of.push_back(Stage{stage});
  return stage_of;
}

std::optional<Message> received_before(const PipelineSchedule& schedule, const Action& action) {
  const auto& [kind, micro_batch, chunk] = action;
  const Stage here = schedule.stage(chunk);
  if (kind == ActionKind::kForward && to_int(chunk) > 0) {
    return between_stages({MessageKind::kActivation, schedule.stage(before(chunk)), here,
                           micro_batch, before(chunk)});
  }
  if (passes_gradient(kind) && to_int(chunk) + 1 < schedule.chunks()) {
    return between_stages(
        {MessageKind::kGradient, schedule.stage(next(chunk)), here, micro_batch, chunk});
  }
  return std::nullopt;
}

std::optional<Message> sent_after(const PipelineSchedule& schedule, const Action& action) {
  const auto& [kind, micro_batch, chunk] = action;
  const Stage here = schedule.stage(chunk);
  if (kind == ActionKind::kForward && to_int(chunk) + 1 < schedule.chunks()) {
    return between_stages(
        {MessageKind::kActivation, here, schedule.stage(next(chunk)), micro_batch, chunk});
  }
  if (passes_gradient(kind) && to_int(chunk) > 0) {
    return between_stages(
        {MessageKind::kGradient, here, schedule.stage(before(chunk)), micro_batch, before(chunk)});
  }
  return std::nullopt;
}

}  // namespace muster::layout
