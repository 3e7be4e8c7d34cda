#include "muster/parallel/slice_strategy.h"

#include <algorithm>

#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

constexpr double kStatisticsMomentum = 0.1;  // PyTorch's default for batch norm

}  // namespace

std::vector<StateSlice> SliceStrategy::model_state() {
  std::vector<StateSlice> state;
  for (const models::Parameter& parameter : model().parameters())
    state.push_back(whole_slice(parameter.name, parameter.tensor));
  for (const models::Parameter& parameter : model().frozen())
    state.push_back(whole_slice(parameter.name, parameter.tensor));
  for (const models::Statistic& statistic : model().statistics())
    state.push_back(whole_slice(statistic.name, statistic.tensor));
  return state;
}

Status SliceStrategy::timed_update(const StepInput& input, StepReport& report,
                                   const std::function<Status()>& update) {
  if (input.before_update) report.times.checkpoint_stall = input.before_update();
  const TimePoint updating = clock_.now();
  MUSTER_TRY(update());
  report.times.update = clock_.now() - updating;
  return ok();
}

void SliceStrategy::apply_statistics(const std::vector<at::Tensor>& statistics) {
  if (!statistics.empty()) model().apply_statistics(statistics, kStatisticsMomentum);
}

Status SliceStrategy::swap_parameters(const std::vector<at::Tensor>& averages) {
  if (averages.empty()) return fail(ErrorCode::kInvalid, "[parallel] no average is kept");
  std::size_t next = 0;
  for (const auto* parameters : {&model().parameters(), &model().expert_parameters()})
    for (const models::Parameter& parameter : *parameters)
      std::ranges::swap_ranges(view_over(parameter.tensor).bytes,
                               view_over(averages[next++]).bytes);
  return ok();
}

std::vector<at::Tensor> SliceStrategy::gradients_over_sums() {
  std::vector<at::Tensor> gradients;
  const auto& parameters = model().parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    gradients.push_back(tensor_over_sum(slices().exchange().sum(slices().slot_of(i)),
                                        parameters[i].tensor.sizes()));
  return gradients;
}

StateSlice SliceStrategy::whole_slice(const std::string& name, const at::Tensor& tensor) {
  const TensorView view = view_over(tensor);
  return {name, view, view.shape, Shape(view.shape.size(), 0)};
}

}  // namespace muster::parallel
