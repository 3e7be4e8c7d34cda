#include "muster/plan/question.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "muster/base/check.h"

namespace muster::plan {
namespace {

using layout::ChunkCost;
using layout::PipelineKind;

layout::PipelineOptions options_of(const PipelineQuestion& question, PipelineKind kind) {
  layout::PipelineOptions options{kind, question.stages, question.micro_batches};
  if (kind == PipelineKind::kInterleaved) options.chunks_per_stage = question.chunks_per_stage;
  if (kind == PipelineKind::kZbV) options.memory_limit = question.memory_limit;
  return options;
}

std::vector<layout::Stage> placement_of(PipelineKind kind, std::int32_t stages,
                                        std::int32_t chunks) {
  return kind == PipelineKind::kZbV ? layout::v_placement(stages)
                                    : layout::round_robin_placement(stages, chunks / stages);
}

Error bad_question(std::string_view why) {
  return fail(ErrorCode::kInvalid, fmt::format("[plan/pipeline] {}", why));
}

// So much of a whole.
struct StageShare {
  double part;
  Duration operator()(Duration whole) const {
    return Duration(std::llround(part * static_cast<double>(whole.count())));
  }
  std::uint64_t operator()(std::uint64_t whole) const {
    return static_cast<std::uint64_t>(std::llround(part * static_cast<double>(whole)));
  }
};

// The whole model is `stages` average stages.
StageShare share_of_stage(const PipelineQuestion& question, double part_of_model) {
  return {part_of_model * question.stages};
}

ChunkCost cost_of(const PipelineQuestion& question, double part_of_model) {
  const StageShare share = share_of_stage(question, part_of_model);
  return {share(question.stage.forward), share(question.stage.backward_input),
          share(question.stage.backward_weight), question.stage.output_bytes};
}

ChunkMemory memory_of(const PipelineQuestion& question, double part_of_model) {
  const StageShare share = share_of_stage(question, part_of_model);
  return {share(question.stage_memory.activations), share(question.stage_memory.weight_inputs),
          share(question.stage_memory.state)};
}

Result<layout::Partition> partition_of(const PipelineQuestion& question,
                                       const std::vector<layout::Stage>& stage_of) {
  const auto chunks = static_cast<std::int32_t>(stage_of.size());
  if (!question.block_counts.empty())
    return layout::partition_by_hand(question.block_counts,
                                     {static_cast<std::int32_t>(question.blocks.size()), chunks});
  std::vector<Duration> costs;
  const double all = std::accumulate(question.blocks.begin(), question.blocks.end(), 0.0);
  for (const double block : question.blocks) {
    const ChunkCost cost = cost_of(question, block / all);
    costs.push_back(cost.forward + cost.backward_input + cost.backward_weight);
  }
  return layout::partition_by_cost(costs, stage_of);
}

// The part of the model that each chunk is.
std::vector<double> parts_of(const PipelineQuestion& question, const layout::Partition& partition,
                             std::int32_t chunks) {
  if (question.blocks.empty()) return std::vector(static_cast<std::size_t>(chunks), 1.0 / chunks);
  const double all = std::accumulate(question.blocks.begin(), question.blocks.end(), 0.0);
  std::vector<double> parts;
  for (const layout::BlockRange& range : partition)
    parts.push_back(std::accumulate(question.blocks.begin() + range.begin,
                                    question.blocks.begin() + range.end, 0.0) /
                    all);
  return parts;
}

Status check_blocks(const PipelineQuestion& question) {
  double sum = 0;
  for (const double block : question.blocks) {
    if (!(block >= 0) || !std::isfinite(block)) return bad_question("a block costs 0 or more");
    sum += block;
  }
  if (question.blocks.empty() && !question.block_counts.empty())
    return bad_question("a partition by hand needs to know what the blocks cost");
  if (!question.blocks.empty() && !(sum > 0 && std::isfinite(sum)))
    return bad_question("some block costs more than 0");
  return ok();
}

}  // namespace

Result<std::int32_t> chunk_count(const PipelineQuestion& question, PipelineKind kind) {
  return layout::chunk_count(options_of(question, kind));
}

Result<PipelineAnswer> answer(const PipelineQuestion& question, PipelineKind kind) {
  MUSTER_TRY(check_blocks(question));
  layout::PipelineOptions options = options_of(question, kind);
  MUSTER_ASSIGN(const std::int32_t chunks, layout::chunk_count(options));
  PipelineAnswer answer;
  if (!question.blocks.empty()) {
    MUSTER_ASSIGN(answer.partition,
                  partition_of(question, placement_of(kind, question.stages, chunks)));
  }
  layout::PipelineCosts costs;
  costs.link = question.link;
  std::vector<ChunkMemory> memory;
  for (const double part : parts_of(question, answer.partition, chunks)) {
    costs.chunks.push_back(cost_of(question, part));
    memory.push_back(memory_of(question, part));
  }
  if (kind == PipelineKind::kZbV) options.costs = costs;
  MUSTER_ASSIGN(auto schedule, layout::make_schedule(options));
  MUSTER_ASSIGN(answer.simulation, simulate(std::move(schedule), costs, memory));
  return answer;
}

}  // namespace muster::plan
