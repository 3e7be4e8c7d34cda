#include "muster/models/rotary.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "muster/base/check.h"
#include "muster/models/positions.h"
#include "muster/models/precision.h"

namespace muster::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// [first · cosine - second · sine, second · cosine + first · sine] of the two halves of the last
// axis, rounded once. No autograd.
torch::Tensor turn(const torch::Tensor& input, const torch::Tensor& cosine,
                   const torch::Tensor& sine) {
  const std::int64_t half = cosine.size(-1);
  const torch::Tensor wide = widened(input);
  const auto first = wide.narrow(-1, 0, half), second = wide.narrow(-1, half, half);
  auto output = torch::empty(wide.sizes(), wide.options());
  auto left = output.narrow(-1, 0, half), right = output.narrow(-1, half, half);
  at::mul_out(left, first, cosine).addcmul_(second, sine, -1);
  at::mul_out(right, second, cosine).addcmul_(first, sine);
  return output.to(input.scalar_type());
}

// The gradient is turned back by the same angles.
class Rotation final : public torch::autograd::Function<Rotation> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input,
                               const torch::Tensor& cosine, const torch::Tensor& sine) {
    context->save_for_backward({cosine, sine});
    return turn(input, cosine, sine);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    return {turn(gradients[0], saved[0], saved[1].neg()), {}, {}};
  }
};

}  // namespace

// In the C library's double precision, which no vector instruction set changes.
RotaryTable::RotaryTable(std::int64_t positions, std::int64_t head_width, double base) {
  MUSTER_CHECK(head_width % 2 == 0, "rotary pairs need an even head width");
  const std::int64_t half = head_width / 2;
  double_.cosine = torch::empty({positions, half}, torch::kFloat64);
  double_.sine = torch::empty({positions, half}, torch::kFloat64);
  double* cosine = double_.cosine.data_ptr<double>();
  double* sine = double_.sine.data_ptr<double>();
  for (std::int64_t position = 0; position < positions; ++position)
    for (std::int64_t pair = 0; pair < half; ++pair) {
      const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(head_width);
      const double angle = static_cast<double>(position) * std::pow(base, exponent);
      *cosine++ = std::cos(angle);
      *sine++ = std::sin(angle);
    }
  single_ = {double_.cosine.to(torch::kFloat32), double_.sine.to(torch::kFloat32)};
}

torch::Tensor RotaryTable::rotate(const torch::Tensor& heads) const {
  return rotate(heads, {heads.size(2), {{0, heads.size(2)}}});
}

torch::Tensor RotaryTable::rotate(const torch::Tensor& heads, const AxisPart& positions) const {
  const Angles& angles = heads.scalar_type() == torch::kFloat64 ? double_ : single_;
  const auto part = [&](const torch::Tensor& table) {
    return take(table, 0, positions).to(heads.device());
  };
  const auto wide = heads.to(angles.cosine.scalar_type());  // bf16 and f16 turn in f32
  return Rotation::apply(wide, part(angles.cosine), part(angles.sine)).to(heads.scalar_type());
}

}  // namespace muster::models
