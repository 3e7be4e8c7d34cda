#include "muster/plan/cell.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/ids.h"
#include "muster/base/units.h"
#include "muster/plan/timeline.h"

namespace muster::plan {

char Cell::letter() const noexcept {
  switch (kind) {
    case layout::ActionKind::kForward:
      return 'F';
    case layout::ActionKind::kBackward:
    case layout::ActionKind::kBackwardInput:
      return 'B';
    case layout::ActionKind::kBackwardWeight:
      return 'W';
  }
  return '?';
}

std::vector<std::vector<Cell>> cells_of(const PipelineSimulation& simulation) {
  const auto& schedule = simulation.schedule;
  std::vector<std::vector<Cell>> rows;
  for (std::size_t stage = 0; stage < schedule.actions.size(); ++stage) {
    const auto own = schedule.chunks_of(layout::Stage{static_cast<std::int32_t>(stage)});
    std::vector<Cell> row;
    for (std::size_t i = 0; i < schedule.actions[stage].size(); ++i) {
      const layout::Action& action = schedule.actions[stage][i];
      const auto turn = std::ranges::find(own, action.chunk) - own.begin();
      row.push_back({action.kind, to_int(action.micro_batch), static_cast<std::int32_t>(turn),
                     static_cast<std::int32_t>(own.size()), simulation.times[stage][i]});
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string time_text(Duration duration) {
  if (duration == Duration::zero()) return "0 s";
  if (duration >= std::chrono::minutes(1)) return format_duration(duration);
  constexpr std::pair<double, std::string_view> kUnits[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}};
  const auto nanoseconds = static_cast<double>(duration.count());
  for (const auto& [size, name] : kUnits)
    if (nanoseconds >= size) return fmt::format("{:.4g} {}", nanoseconds / size, name);
  return format_duration(duration);
}

std::string title_of(const PipelineSimulation& simulation) {
  const auto& schedule = simulation.schedule;
  const std::int32_t turns = schedule.chunks() / schedule.stages();
  return fmt::format("{}, {} stage{}{}, {} micro-batch{}", to_string(schedule.kind),
                     schedule.stages(), schedule.stages() == 1 ? "" : "s",
                     turns == 1 ? "" : fmt::format(" of {} chunks", turns), schedule.micro_batches,
                     schedule.micro_batches == 1 ? "" : "es");
}

}  // namespace muster::plan
