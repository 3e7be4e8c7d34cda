#include "muster/parallel/data_parallel.h"

#include <algorithm>
#include <utility>

#include "muster/optim/clip.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {

DataParallel::DataParallel(std::unique_ptr<models::Model> model,
                           std::unique_ptr<optim::Optimizer> optimizer, SliceOptions options,
                           Clock& clock)
    : SliceStrategy(std::move(model), std::move(options), clock),
      optimizer_(std::move(optimizer)) {}

Status DataParallel::enter(std::shared_ptr<comm::Communicator> communicator,
                           const comm::LeafOwners& owners) {
  MUSTER_TRY(slices().enter(std::move(communicator), owners));
  gradients_ = gradients_over_sums();
  return ok();
}

Result<StepReport> DataParallel::step(const StepInput& input) {
  StepReport report;
  StepInput own = input;
  if (behind_) own.load_slice = nullptr;  // what it computed for others would be of old weights
  MUSTER_TRY(slices().compute(own, report));
  MUSTER_ASSIGN(const std::vector<double> squares, squared_norms());
  MUSTER_ASSIGN(const auto divisor, slices().check_and_clip(input, squares, report));
  if (!divisor) return report;
  Update update{input.learning_rate, *divisor, gradients_, slices().summed_statistics()};
  if (behind_) {
    for (auto* tensors : {&update.gradients, &update.statistics})
      for (at::Tensor& tensor : *tensors) tensor = tensor.clone();
    missed_.push_back(std::move(update));
    return report;
  }
  MUSTER_TRY(timed_update(input, report, [&] { return apply(update); }));
  return report;
}

void DataParallel::fall_behind() {
  behind_ = true;
  missed_.clear();
}

Status DataParallel::catch_up() {
  mirror().write_back();
  for (const Update& update : std::exchange(missed_, {})) MUSTER_TRY(apply(update));
  mirror().changed();
  behind_ = false;
  return ok();
}

// Where the state is still to come nothing is evaluated either.
Status DataParallel::use_average(bool average) {
  if (behind_ || average == uses_average_) return ok();
  MUSTER_TRY(swap_parameters(optimizer_->average()));
  uses_average_ = average;
  return ok();
}

std::vector<at::Tensor> DataParallel::gradients_over_sums() {
  std::vector<at::Tensor> gradients;
  const auto& parameters = model().parameters();
  gradients.reserve(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i)
    gradients.push_back(tensor_over_sum(slices().exchange().sum(slices().slot_of(i)),
                                        parameters[i].tensor.sizes()));
  return gradients;
}

// The parameters and what the optimizer keeps as their averages change places.
Status DataParallel::swap_parameters(const std::vector<at::Tensor>& averages) {
  if (averages.empty()) return fail(ErrorCode::kInvalid, "[parallel] no average is kept");
  const auto& parameters = model().parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) swap_over(parameters[i].tensor, averages[i]);
  mirror().changed();
  return ok();
}

Result<std::vector<double>> DataParallel::squared_norms() {
  std::vector<double> squares(gradients_.size());
  MUSTER_TRY(slices().on_lanes(squares.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) squares[i] = optim::squared_norm(gradients_[i]);
  }));
  return squares;
}

Status DataParallel::apply(const Update& update) {
  optimizer_->begin_step(update.learning_rate);
  std::vector<at::Tensor> gradients;
  gradients.reserve(update.gradients.size());
  for (const at::Tensor& gradient : update.gradients)
    gradients.push_back(gradient.to(model().device()));
  MUSTER_TRY(slices().on_lanes(gradients.size(), [&](std::size_t begin, std::size_t end) {
    optimizer_->update({begin, end}, std::span(gradients).subspan(begin, end - begin),
                       update.divisor);
  }));
  apply_statistics(update.statistics);
  return ok();
}

std::vector<StateSlice> DataParallel::optimizer_state() {
  std::vector<StateSlice> state;
  for (const optim::StateTensor& tensor : optimizer_->state())
    state.push_back(whole_slice(tensor.name, tensor.tensor));
  return state;
}

void DataParallel::loaded(std::int64_t updates) {
  mirror().write_back();
  optimizer_->set_steps(updates);
}

std::uint64_t DataParallel::optimizer_bytes(std::int32_t) { return optimizer_->state_bytes(); }

}  // namespace muster::parallel
