#pragma once
// A pipeline schedule: what each stage computes, in which order, in one step of pipeline-parallel
// training. A plain value computed from a few numbers; it knows no model and no network, so the
// checker proves it (check.h), the simulator plays it with measured costs (times.h), pictures show
// it, and the strategy executes the very same one. Pure, thread-safe.
//
// The model is cut into chunks, numbered in forward order; a stage (a worker, or a group of them)
// holds one or more. A step's samples are cut into micro-batches. What a chunk gives to the next
// one is sent as soon as it is computed, and a gradient back likewise: both are implied by the
// actions. Every stage takes micro-batches through a chunk in ascending order.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"

namespace muster::layout {

enum class Stage : std::int32_t {};
enum class Chunk : std::int32_t {};
enum class MicroBatch : std::int32_t {};

enum class ActionKind : std::uint8_t {
  kForward,
  kBackward,        // gradients of the input and of the weights at once
  kBackwardInput,   // of the input only: what the chunk before waits for
  kBackwardWeight,  // of the weights only: nobody waits for it before the step's end
};

struct Action {
  ActionKind kind = ActionKind::kForward;
  MicroBatch micro_batch{0};
  Chunk chunk{0};
  friend auto operator<=>(const Action&, const Action&) = default;
};

std::string describe(const Action& action);  // "forward of micro-batch 3 on chunk 1"

enum class PipelineKind : std::uint8_t {
  kGPipe,        // all forwards, then all backwards (Huang et al., NeurIPS 2019)
  k1F1B,         // a forward, a backward in turns (PipeDream-flush: Narayanan et al., ICML 2021)
  kInterleaved,  // the same, several chunks a stage (Megatron-LM: Narayanan et al., SC 2021)
  kZbH1,         // 1F1B, backward split: weights' part fills gaps (Qi et al., ICLR 2024)
  kZbV,          // two chunks a stage, placed as a V, backward split (the same)
};
inline constexpr PipelineKind kPipelineKinds[] = {PipelineKind::kGPipe, PipelineKind::k1F1B,
                                                  PipelineKind::kInterleaved, PipelineKind::kZbH1,
                                                  PipelineKind::kZbV};
std::string_view to_string(PipelineKind kind) noexcept;  // "gpipe", "1f1b", …, "zb_v"
// Takes capitals and `-` for `_` as well; suggests the nearest name.
Result<PipelineKind> pipeline_kind_from_string(std::string_view word);

struct PipelineSchedule {
  PipelineKind kind = PipelineKind::k1F1B;
  std::int32_t micro_batches = 0;
  std::vector<Stage> stage_of = {};               // by chunk
  std::vector<std::vector<Action>> actions = {};  // by stage, in order

  std::int32_t stages() const noexcept { return static_cast<std::int32_t>(actions.size()); }
  std::int32_t chunks() const noexcept { return static_cast<std::int32_t>(stage_of.size()); }
  Stage stage(Chunk chunk) const { return stage_of.at(static_cast<std::size_t>(chunk)); }
  std::vector<Chunk> chunks_of(Stage stage) const;  // ascending
  friend bool operator==(const PipelineSchedule&, const PipelineSchedule&) = default;
};

// Chunk c is on stage c mod `stages`: the model passes all stages once for every chunk of a stage.
std::vector<Stage> round_robin_placement(std::int32_t stages, std::int32_t chunks_per_stage);
// Two chunks a stage, the second ones backwards: the model begins and ends on stage 0.
std::vector<Stage> v_placement(std::int32_t stages);

// What passes between two stages because of an action. Messages of one kind between one pair of
// stages are received in the order in which they are sent.
enum class MessageKind : std::uint8_t { kActivation, kGradient };
struct Message {
  MessageKind kind;
  Stage from;
  Stage to;
  MicroBatch micro_batch;
  Chunk boundary;  // between this chunk and the next
  friend bool operator==(const Message&, const Message&) = default;
};
// What the action needs from another stage; none where its own stage has it.
std::optional<Message> received_before(const PipelineSchedule& schedule, const Action& action);
std::optional<Message> sent_after(const PipelineSchedule& schedule, const Action& action);

}  // namespace muster::layout
