#include "muster/models/flop_counter.h"

#include <ATen/record_function.h>

#include <array>
#include <atomic>
#include <functional>
#include <numeric>
#include <string_view>

namespace muster::models {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

double product(c10::IntArrayRef sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), 1.0, std::multiplies<>());
}

// [.., m, k] by [.., k, n].
double of_matrices(const at::Tensor& left, const at::Tensor& right) {
  return 2 * product(left.sizes()) * static_cast<double>(right.size(-1));
}

template <std::size_t kFirst>
double of_product(Inputs inputs) {
  return of_matrices(inputs[kFirst].toTensor(), inputs[kFirst + 1].toTensor());
}

// Each of `places` takes a weight of every kind.
double of_convolution(double samples, c10::IntArrayRef places, const at::Tensor& weight) {
  return 2 * samples * product(places) * static_cast<double>(weight.numel());
}

// input, weight, bias, stride, padding, dilation, transposed, output padding, groups
double of_convolution_forward(Inputs inputs) {
  const at::Tensor input = inputs[0].toTensor(), weight = inputs[1].toTensor();
  c10::DimVector places(input.sizes().slice(2));
  if (!inputs[6].toBool()) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto along = [&](std::size_t option) {  // one number may stand for all dimensions
        const auto given = inputs[option].toDimVector();
        return given[given.size() == 1 ? 0 : i];
      };
      const std::int64_t reach = along(5) * (weight.size(static_cast<std::int64_t>(i) + 2) - 1);
      places[i] = (places[i] + 2 * along(4) - reach - 1) / along(3) + 1;
    }
  }
  return of_convolution(static_cast<double>(input.size(0)), places, weight);
}

// gradient of the output, input, weight, sizes of bias, stride, padding, dilation, transposed,
// output padding, groups, which gradients are wanted
double of_convolution_backward(Inputs inputs) {
  const at::Tensor gradient = inputs[0].toTensor(), input = inputs[1].toTensor();
  const c10::IntArrayRef places = inputs[7].toBool() ? input.sizes() : gradient.sizes();
  const auto wanted = inputs[10].toBoolList();
  const int times = static_cast<int>(wanted[0]) + static_cast<int>(wanted[1]);
  return times *
         of_convolution(static_cast<double>(input.size(0)), places.slice(2), inputs[2].toTensor());
}

// Of queries, keys and values [.., positions, width] from input `first` on.
double of_attention(Inputs inputs, std::size_t first) {
  const at::Tensor query = inputs[first].toTensor(), key = inputs[first + 1].toTensor(),
                   value = inputs[first + 2].toTensor();
  const double pairs = product(query.sizes()) / static_cast<double>(query.size(-1)) *
                       static_cast<double>(key.size(-2));
  return 2 * pairs * static_cast<double>(query.size(-1) + value.size(-1));
}

struct Operator {
  std::string_view name;
  double (*flops)(Inputs inputs);
};

constexpr std::array<Operator, 6> kOperators{
    {{"aten::mm", of_product<0>},
     {"aten::addmm", of_product<1>},
     {"aten::bmm", of_product<0>},
     {"aten::baddbmm", of_product<1>},
     {"aten::convolution", of_convolution_forward},
     {"aten::convolution_backward", of_convolution_backward}}};

double flops_of(std::string_view name, Inputs inputs) {
  for (const Operator& each : kOperators)
    if (each.name == name) return each.flops(inputs);
  // There is one for each device and library. That of plain products is made of those above.
  if (!name.starts_with("aten::_scaled_dot_product_") || name.ends_with("_math")) return 0;
  return name.ends_with("_backward") ? 2 * of_attention(inputs, 1) : of_attention(inputs, 0);
}

constexpr auto kSlot = c10::DebugInfoKind::PRODUCER_INFO;  // libtorch itself has no use for it

}  // namespace

// Backward on a device runs in a thread of its own, which inherits the callback and this.
class FlopCounter::Sum final : public c10::DebugInfoBase {
 public:
  static std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
    if (auto* const here = static_cast<Sum*>(c10::ThreadLocalDebugInfo::get(kSlot)))
      here->flops_ += flops_of(function.name(), function.inputs());
    return nullptr;
  }
  double flops() const noexcept { return flops_; }

 private:
  std::atomic<double> flops_ = 0;
};

FlopCounter::FlopCounter()
    : sum_(std::make_shared<Sum>()),
      installed_(kSlot, sum_),
      callback_(at::addThreadLocalCallback(at::RecordFunctionCallback(Sum::count)
                                               .needsInputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {}

FlopCounter::~FlopCounter() { at::removeCallback(callback_); }

double FlopCounter::counted() const noexcept { return sum_->flops(); }

}  // namespace muster::models
