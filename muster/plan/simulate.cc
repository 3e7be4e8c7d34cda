#include "muster/plan/simulate.h"

#include <algorithm>

#include "muster/base/check.h"
#include "muster/layout/pipeline/check.h"

namespace muster::plan {
namespace {

using layout::Action;
using layout::ActionKind;

// What changes in a stage's memory because of one action: at its begin, and at its end.
struct MemoryChange {
  std::int64_t at_begin = 0;
  std::int64_t at_end = 0;
};

MemoryChange change_of(ActionKind kind, const ChunkMemory& chunk) {
  const auto all = static_cast<std::int64_t>(chunk.activations);
  const auto kept = static_cast<std::int64_t>(chunk.weight_inputs);
  switch (kind) {
    case ActionKind::kForward:
      return {all, 0};
    case ActionKind::kBackward:
      return {0, -all};
    case ActionKind::kBackwardInput:
      return {0, kept - all};
    case ActionKind::kBackwardWeight:
      return {0, -kept};
  }
  return {};
}

class StageMemory {
 public:
  explicit StageMemory(std::uint64_t state) : points_{{Duration{}, state}} {}

  void change(Duration at, std::int64_t by) {
    if (by == 0) return;
    const std::uint64_t bytes = points_.back().bytes + static_cast<std::uint64_t>(by);
    if (points_.back().at == at)
      points_.back().bytes = bytes;
    else
      points_.push_back({at, bytes});
  }
  std::vector<MemoryPoint> take() { return std::move(points_); }

 private:
  std::vector<MemoryPoint> points_;
};

const ChunkMemory& of(const std::vector<ChunkMemory>& memory, layout::Chunk chunk) {
  return memory[static_cast<std::size_t>(chunk)];
}

std::vector<MemoryPoint> memory_of(const PipelineSimulation& run,
                                   const std::vector<ChunkMemory>& memory, std::size_t stage) {
  std::uint64_t state = 0;
  for (const auto chunk : run.schedule.chunks_of(layout::Stage{static_cast<std::int32_t>(stage)}))
    state += of(memory, chunk).state;
  StageMemory points(state);
  for (std::size_t i = 0; i < run.times[stage].size(); ++i) {
    const Action& action = run.schedule.actions[stage][i];
    const MemoryChange change = change_of(action.kind, of(memory, action.chunk));
    points.change(run.times[stage][i].begin, change.at_begin);
    points.change(run.times[stage][i].end, change.at_end);
  }
  return points.take();
}

void count_messages(const PipelineSimulation& run, const layout::PipelineCosts& costs,
                    std::size_t stage, StageSummary& summary) {
  for (const Action& action : run.schedule.actions[stage]) {
    const auto message = layout::sent_after(run.schedule, action);
    if (!message) continue;
    ++summary.sent_messages;
    summary.sent_bytes += costs.chunks[static_cast<std::size_t>(message->boundary)].output_bytes;
  }
}

StageSummary summarise(const PipelineSimulation& run, const layout::PipelineCosts& costs,
                       const std::vector<ChunkMemory>& memory, std::size_t stage) {
  StageSummary summary;
  for (const layout::ActionTime& time : run.times[stage]) summary.busy += time.end - time.begin;
  summary.begin = run.times[stage].front().begin;
  summary.end = run.times[stage].back().end;
  summary.memory = memory_of(run, memory, stage);
  summary.peak_bytes = std::ranges::max_element(summary.memory, {}, &MemoryPoint::bytes)->bytes;
  count_messages(run, costs, stage, summary);
  return summary;
}

}  // namespace

std::vector<ChunkMemory> equal_memory(const ChunkMemory& model, std::int32_t chunks) {
  const auto parts = static_cast<std::uint64_t>(chunks);
  return std::vector(
      static_cast<std::size_t>(chunks),
      ChunkMemory{model.activations / parts, model.weight_inputs / parts, model.state / parts});
}

std::uint64_t PipelineSimulation::peak_bytes() const noexcept {
  std::uint64_t peak = 0;
  for (const StageSummary& stage : stages) peak = std::max(peak, stage.peak_bytes);
  return peak;
}

std::int32_t PipelineSimulation::peak_activations() const noexcept {
  std::int32_t peak = 0;
  for (const StageSummary& stage : stages) peak = std::max(peak, stage.peak_activations);
  return peak;
}

std::uint64_t PipelineSimulation::sent_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const StageSummary& stage : stages) sum += stage.sent_bytes;
  return sum;
}

double PipelineSimulation::idle_share(Duration length) const noexcept {
  Duration busy{};
  for (const StageSummary& stage : stages) busy += stage.busy;
  const double all = static_cast<double>(length.count()) * static_cast<double>(stages.size());
  return all > 0 ? 1 - static_cast<double>(busy.count()) / all : 0;
}

Result<PipelineSimulation> simulate(layout::PipelineSchedule schedule,
                                    const layout::PipelineCosts& costs,
                                    const std::vector<ChunkMemory>& memory) {
  MUSTER_CHECK(std::ssize(memory) == schedule.chunks(), "the memory of each chunk");
  MUSTER_TRY(layout::check(schedule));
  PipelineSimulation run;
  run.schedule = std::move(schedule);
  MUSTER_ASSIGN(run.times, layout::play(run.schedule, costs));
  run.makespan = layout::makespan(run.times);
  run.period = layout::step_period(run.times);
  const auto peaks = layout::peak_activations(run.schedule);
  for (std::size_t stage = 0; stage < peaks.size(); ++stage) {
    run.stages.push_back(summarise(run, costs, memory, stage));
    run.stages.back().peak_activations = peaks[stage];
  }
  return run;
}

}  // namespace muster::plan
