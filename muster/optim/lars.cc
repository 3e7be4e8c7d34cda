#include "muster/optim/lars.h"

#include <utility>

#include "muster/optim/elements.h"

namespace muster::optim {
namespace {

// v = momentum · v + rate · (g + decay · w); w -= v.
template <class T>
void step(std::span<T> weights, std::span<T> velocity, std::span<const T> gradient, T momentum,
          T rate, T decay) {
  T* __restrict w = weights.data();
  T* __restrict v = velocity.data();
  const T* __restrict g = gradient.data();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    v[i] = momentum * v[i] + rate * (g[i] + decay * w[i]);
    w[i] -= v[i];
  }
}

}  // namespace

Lars::Lars(const LarsSpec& spec, std::vector<OptimizedParameter> parameters,
           std::shared_ptr<OffloadedState> offloaded)
    : NormScaled(std::move(parameters), spec.weight_decay, spec.scale_norms_and_biases,
                 std::move(offloaded)),
      spec_(spec),
      momentum_(zeros()) {}

double Lars::trust_ratio(std::size_t parameter, double weight_norm, double gradient_norm) const {
  return spec_.trust_coefficient * weight_norm /
         (gradient_norm + weight_decay_of(parameter) * weight_norm);
}

void Lars::move(std::size_t parameter, const torch::Tensor& gradient, double trust) {
  HostTensors here({parameters()[parameter].tensor, momentum_[parameter], gradient});
  with_elements(here[0], [&](auto type) {
    using T = decltype(type);
    step(elements_of<T>(here[0]), elements_of<T>(here[1]), elements_of<const T>(here[2]),
         static_cast<T>(spec_.momentum), static_cast<T>(learning_rate_of(parameter) * trust),
         static_cast<T>(weight_decay_of(parameter)));
  });
  here.write_back();
}

std::vector<StateTensor> Lars::state() { return named_state({{"momentum", momentum_}}); }

}  // namespace muster::optim
