#include "muster/parallel/slice_strategy.h"

#include <algorithm>

#include "muster/parallel/part_slices.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

constexpr double kStatisticsMomentum = 0.1;  // PyTorch's default for batch norm

}  // namespace

std::vector<StateSlice> SliceStrategy::model_state() {
  std::vector<StateSlice> state;
  const auto add = [&](const auto& held) {
    add_slices(state, held.name, mirror_.of(held.tensor), held.cut);
  };
  std::ranges::for_each(model().parameters(), add);
  std::ranges::for_each(model().expert_parameters(), add);
  std::ranges::for_each(model().frozen(), add);
  std::ranges::for_each(model().statistics(), add);
  return state;
}

Status SliceStrategy::timed_update(const StepInput& input, StepReport& report,
                                   const std::function<Status()>& update) {
  if (input.before_update) report.times.checkpoint_stall = input.before_update();
  const TimePoint updating = clock_.now();
  mirror_.changed();
  MUSTER_TRY(update());
  report.times.update = clock_.now() - updating;
  return ok();
}

void SliceStrategy::apply_statistics(const std::vector<at::Tensor>& statistics) {
  if (!statistics.empty()) model().apply_statistics(statistics, kStatisticsMomentum);
}

OnLanes SliceStrategy::lanes_runner() {
  return [this](std::size_t count, const std::function<void(std::size_t, std::size_t)>& body) {
    return slices_.on_lanes(count, body);
  };
}

StateSlice SliceStrategy::whole_slice(const std::string& name, const at::Tensor& tensor) {
  const TensorView view = view_over(mirror_.of(tensor));
  return {name, view, view.shape, Shape(view.shape.size(), 0)};
}

}  // namespace muster::parallel
