#include "muster/optim/norm_scaled.h"

#include <cmath>
#include <utility>

#include "muster/base/check.h"
#include "muster/optim/elements.h"
#include "muster/optim/single_thread.h"

namespace muster::optim {
namespace {

NormSquares sum_of(std::span<const NormSquares> cells) {
  NormSquares sum;
  for (const NormSquares& cell : cells) {
    sum.weights += cell.weights;
    sum.direction += cell.direction;
  }
  return sum;
}

}  // namespace

NormScaled::NormScaled(std::vector<OptimizedParameter> parameters, double weight_decay,
                       bool scale_norms_and_biases, std::shared_ptr<OffloadedState> offloaded)
    : Optimizer(std::move(parameters), {weight_decay, scale_norms_and_biases},
                std::move(offloaded)),
      scale_norms_and_biases_(scale_norms_and_biases) {
  for (const auto& parameter : this->parameters())
    squares_.emplace_back(static_cast<std::size_t>(cells_of(parameter.tensor).count()));
}

void NormScaled::measure(ParameterRange range, std::span<const torch::Tensor> gradients,
                         double divisor) {
  MUSTER_CHECK(gradients.size() == range.size(), "one gradient for each parameter of the range");
  const at::NoGradGuard no_grad;
  const SingleThread single;
  in_windows(range, [&](ParameterRange window) {
    const auto own = gradients.subspan(window.begin - range.begin, window.size());
    for (const Group& group : groups_of(window, own, divisor)) measure_group(group);
  });
}

void NormScaled::measure_group(const Group& group) {
  for (std::size_t at = 0; at < group.index.size(); ++at) {
    const std::size_t i = group.index[at];
    torch::Tensor direction = group.gradients[at];
    direct(i, direction);
    if (!scales(i)) continue;
    const Cells cells = cells_of(direction);
    const HostTensors here({group.parameters[at], direction});
    with_elements(here[0], [&](auto type) {
      using T = decltype(type);
      const auto weights = elements_of<const T>(here[0]);
      const auto moves = elements_of<const T>(here[1]);
      for (std::int64_t cell = 0; cell < cells.count(); ++cell)
        squares_[i][static_cast<std::size_t>(cell)] = {sum_of_squares(cells.in(weights, cell)),
                                                       sum_of_squares(cells.in(moves, cell))};
    });
  }
}

double NormScaled::trust_of(std::size_t parameter, const NormSquares& whole) const {
  if (!scales(parameter) || !(whole.weights > 0) || !(whole.direction > 0)) return 1;
  return trust_ratio(parameter, std::sqrt(whole.weights), std::sqrt(whole.direction));
}

void NormScaled::finish(ParameterRange range, std::span<const torch::Tensor> gradients,
                        std::span<const NormSquares> wholes) {
  MUSTER_CHECK(gradients.size() == range.size() && wholes.size() == range.size(),
               "a direction and its norms for each parameter of the range");
  const at::NoGradGuard no_grad;
  const SingleThread single;
  in_windows(range, [&](ParameterRange window) {
    for (std::size_t i = window.begin; i < window.end; ++i)
      move(i, gradients[i - range.begin], trust_of(i, wholes[i - range.begin]));
    add_to_average(window);
  });
}

void NormScaled::update_group(const Group& group) {
  measure_group(group);
  for (std::size_t at = 0; at < group.index.size(); ++at) {
    const std::size_t i = group.index[at];
    move(i, group.gradients[at], trust_of(i, sum_of(squares_[i])));
  }
}

}  // namespace muster::optim
