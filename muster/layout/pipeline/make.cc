#include "muster/layout/pipeline/make.h"

#include <fmt/format.h>

#include "muster/layout/pipeline/builders.h"

namespace muster::layout {
namespace {

// Above these a schedule would not be of use to anybody, and numbers could overflow.
constexpr std::int32_t kMostStages = 4096;
constexpr std::int32_t kMostMicroBatches = 65536;
constexpr std::int64_t kMostActions = 1 << 26;

Error bad_pipeline(const std::string& why) {
  return fail(ErrorCode::kInvalid, "[layout/pipeline] " + why);
}

Status check_range(std::string_view what, std::int32_t value, std::int32_t most) {
  if (value >= 1 && value <= most) return ok();
  return bad_pipeline(fmt::format("{} {}; expected 1 to {}", value, what, most));
}

bool has_several_chunks(PipelineKind kind) {
  return kind == PipelineKind::kInterleaved || kind == PipelineKind::kZbV;
}

Status check_chunks(const PipelineOptions& options, std::int32_t chunks) {
  MUSTER_TRY(check_range("chunks a stage", chunks, kMostStages));
  if (options.kind == PipelineKind::kZbV && chunks != 2)
    return bad_pipeline(fmt::format("zb_v places 2 chunks on each stage, not {}", chunks));
  if (!has_several_chunks(options.kind) && chunks != 1)
    return bad_pipeline(
        fmt::format("{} has one chunk a stage, not {}; the schedule with more is "
                    "interleaved",
                    to_string(options.kind), chunks));
  return ok();
}

Status check_size(const PipelineOptions& options, std::int32_t chunks) {
  const std::int64_t actions = std::int64_t{3} * options.stages * chunks * options.micro_batches;
  if (actions <= kMostActions) return ok();
  return bad_pipeline(
      fmt::format("{} stages x {} chunks x {} micro-batches are too many for a schedule",
                  options.stages, chunks, options.micro_batches));
}

Result<std::int32_t> memory_limit_of(const PipelineOptions& options) {
  const std::int32_t limit = options.memory_limit.value_or(2 * options.stages);
  if (options.memory_limit && options.kind != PipelineKind::kZbV)
    return bad_pipeline(
        fmt::format("{} takes no memory limit; zb_v does", to_string(options.kind)));
  if (limit >= 2) return limit;
  return bad_pipeline(
      fmt::format("a memory limit of {}; zb_v needs to hold at least 2 activations, one "
                  "of each chunk",
                  limit));
}

Result<PipelineCosts> costs_of(const PipelineOptions& options) {
  const std::size_t chunks = 2 * static_cast<std::size_t>(options.stages);
  using std::chrono::microseconds;
  if (!options.costs)
    return PipelineCosts{
        std::vector<ChunkCost>(chunks, {microseconds(1), microseconds(1), microseconds(1)}), {}};
  if (options.costs->chunks.size() == chunks) return *options.costs;
  return bad_pipeline(fmt::format("costs of {} chunks; zb_v on {} stages has {}",
                                  options.costs->chunks.size(), options.stages, chunks));
}

Result<PipelineSchedule> make_zb_v(const PipelineOptions& options, PipelineSize size) {
  MUSTER_ASSIGN(const std::int32_t limit, memory_limit_of(options));
  MUSTER_ASSIGN(const PipelineCosts costs, costs_of(options));
  return make_zb_v(size, limit, costs);
}

}  // namespace

Result<std::int32_t> chunk_count(const PipelineOptions& options) {
  const std::int32_t chunks =
      options.chunks_per_stage.value_or(has_several_chunks(options.kind) ? 2 : 1);
  MUSTER_TRY(check_range("stages", options.stages, kMostStages));
  MUSTER_TRY(check_chunks(options, chunks));
  return options.stages * chunks;
}

Result<PipelineSchedule> make_schedule(const PipelineOptions& options) {
  MUSTER_ASSIGN(const std::int32_t chunks, chunk_count(options));
  MUSTER_TRY(check_range("micro-batches", options.micro_batches, kMostMicroBatches));
  MUSTER_TRY(check_size(options, chunks / options.stages));
  MUSTER_TRY(memory_limit_of(options));
  const PipelineSize size{options.stages, options.micro_batches};
  switch (options.kind) {
    case PipelineKind::kGPipe:
      return make_gpipe(size);
    case PipelineKind::k1F1B:
      return make_1f1b(size);
    case PipelineKind::kInterleaved:
      return make_interleaved(size, chunks / options.stages);
    case PipelineKind::kZbH1:
      return make_zb_h1(size);
    case PipelineKind::kZbV:
      return make_zb_v(options, size);
  }
  return bad_pipeline("no such kind of schedule");
}

}  // namespace muster::layout
