#include "muster/parallel/check_and_clip.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/optim/clip.h"

namespace muster::parallel {

Result<double> check_and_clip(const StepInput& input, std::span<const std::string> names,
                              std::span<const double> squares, double max_grad_norm,
                              StepReport& report) {
  Status finite = optim::check_finite(squares, names);
  if (finite && !std::isfinite(report.loss)) {
    finite = fail(ErrorCode::kNumeric, fmt::format("the loss is {}", report.loss));
  }
  if (!finite) {
    return with_context(std::move(finite).error(),
                        fmt::format("[parallel] step {}, learning rate {:g}, nothing was updated",
                                    to_int(input.step), input.learning_rate));
  }
  report.grad_norm = optim::global_norm(squares);
  return 1.0 / optim::clip_scale(report.grad_norm, max_grad_norm);
}

}  // namespace muster::parallel
