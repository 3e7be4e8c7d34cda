#include "muster/optim/clip.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <cmath>

#include "muster/base/check.h"
#include "muster/optim/elements.h"

namespace muster::optim {

double squared_norm(const torch::Tensor& gradient) {
  const at::NoGradGuard no_grad;
  const torch::Tensor dense = gradient.detach().cpu().contiguous();
  const Cells cells = cells_of(dense);
  double total = 0;
  with_elements(dense, [&](auto type) {
    const auto elements = elements_of<const decltype(type)>(dense);
    for (std::int64_t cell = 0; cell < cells.count(); ++cell)
      total += sum_of_squares(cells.in(elements, cell));
  });
  return total;
}

double global_norm(std::span<const double> squared_norms) {
  double total = 0;
  for (const double squared : squared_norms) total += squared;
  return std::sqrt(total);
}

double clip_scale(double norm, double max_norm) noexcept {
  if (max_norm <= 0) return 1;
  const double scale = max_norm / (norm + 1e-6);
  return scale < 1 ? scale : 1;
}

Status check_finite(std::span<const double> squared_norms, std::span<const std::string> names) {
  MUSTER_CHECK(squared_norms.size() == names.size(), "one name for each norm");
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!std::isfinite(squared_norms[i]))
      return fail(ErrorCode::kNumeric,
                  fmt::format("[optim/clip] the gradient of {} is not finite; lower the learning "
                              "rate, warm up longer or clip (max_grad_norm)",
                              names[i]));
  return ok();
}

}  // namespace muster::optim
