#include "muster/parallel/check_and_clip.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/optim/clip.h"

namespace muster::parallel {

namespace {

// In the order of backward, so that it names where the overflow began and not what it spoilt.
std::optional<std::string> overflow_in(std::span<const std::string> names,
                                       std::span<const double> squares, double loss) {
  for (std::size_t i = squares.size(); i-- > 0;)
    if (!std::isfinite(squares[i])) return names[i];
  return std::isfinite(loss) ? std::nullopt : std::optional<std::string>("the loss");
}

}  // namespace

Result<std::optional<double>> check_and_clip(const StepInput& input,
                                             std::span<const std::string> names,
                                             std::span<const double> squares, double max_grad_norm,
                                             StepReport& report) {
  if (input.loss_scale) report.overflow = overflow_in(names, squares, report.loss);
  if (report.overflow) return std::optional<double>();
  Status finite = optim::check_finite(squares, names);
  if (finite && !std::isfinite(report.loss)) {
    finite = fail(ErrorCode::kNumeric, fmt::format("the loss is {}", report.loss));
  }
  if (!finite) {
    return with_context(std::move(finite).error(),
                        fmt::format("[parallel] step {}, learning rate {:g}, nothing was updated",
                                    to_int(input.step), input.learning_rate));
  }
  const double scale = input.loss_scale.value_or(1);
  report.grad_norm = optim::global_norm(squares) / scale;
  return std::optional(scale / optim::clip_scale(report.grad_norm, max_grad_norm));
}

std::optional<double> divisor_so_far(const StepInput& input, std::span<const double> squares,
                                     double max_grad_norm, const StepReport& report) {
  const double scale = input.loss_scale.value_or(1);
  const double norm = optim::global_norm(squares) / scale;
  if (!std::isfinite(norm) || !std::isfinite(report.loss)) return std::nullopt;
  if (optim::clip_scale(norm, max_grad_norm) < 1) return std::nullopt;
  return scale;
}

}  // namespace muster::parallel
