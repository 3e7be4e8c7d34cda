#include "muster/optim/lamb.h"

#include <cmath>
#include <utility>

#include "muster/optim/elements.h"

namespace muster::optim {
namespace {

template <class T>
struct Moments {
  T beta1, beta2;
  T rest1, rest2;  // 1 - beta
  T epsilon, decay;
  T correction1, correction2;  // of the bias: 1 - beta1^steps, the root of 1 - beta2^steps
};

// m, v: the moving averages of the gradient and of its square; g becomes the direction.
template <class T>
void direct_elements(std::span<T> mean, std::span<T> variance, std::span<T> gradient,
                     std::span<const T> weights, const Moments<T>& by) {
  T* __restrict m = mean.data();
  T* __restrict v = variance.data();
  T* __restrict g = gradient.data();
  const T* __restrict w = weights.data();
  for (std::size_t i = 0; i < mean.size(); ++i) {
    m[i] = by.beta1 * m[i] + by.rest1 * g[i];
    v[i] = by.beta2 * v[i] + by.rest2 * g[i] * g[i];
    const T root = std::sqrt(v[i]) / by.correction2 + by.epsilon;
    g[i] = m[i] / by.correction1 / root + by.decay * w[i];
  }
}

template <class T>
void move_elements(std::span<T> weights, std::span<const T> direction, T rate) {
  T* __restrict w = weights.data();
  const T* __restrict d = direction.data();
  for (std::size_t i = 0; i < weights.size(); ++i) w[i] -= rate * d[i];
}

}  // namespace

Lamb::Lamb(const LambSpec& spec, std::vector<OptimizedParameter> parameters,
           std::shared_ptr<OffloadedState> offloaded)
    : NormScaled(std::move(parameters), spec.weight_decay, spec.scale_norms_and_biases,
                 std::move(offloaded)),
      spec_(spec),
      mean_(zeros()),
      variance_(zeros()) {}

void Lamb::direct(std::size_t parameter, torch::Tensor& gradient) {
  const auto step = static_cast<double>(steps());
  HostTensors here(
      {mean_[parameter], variance_[parameter], gradient, parameters()[parameter].tensor});
  with_elements(here[0], [&](auto type) {
    using T = decltype(type);
    const Moments<T> by{.beta1 = static_cast<T>(spec_.beta1),
                        .beta2 = static_cast<T>(spec_.beta2),
                        .rest1 = static_cast<T>(1 - spec_.beta1),
                        .rest2 = static_cast<T>(1 - spec_.beta2),
                        .epsilon = static_cast<T>(spec_.epsilon),
                        .decay = static_cast<T>(weight_decay_of(parameter)),
                        .correction1 = static_cast<T>(1 - std::pow(spec_.beta1, step)),
                        .correction2 = static_cast<T>(std::sqrt(1 - std::pow(spec_.beta2, step)))};
    direct_elements(elements_of<T>(here[0]), elements_of<T>(here[1]), elements_of<T>(here[2]),
                    elements_of<const T>(here[3]), by);
  });
  here.write_back();
}

double Lamb::trust_ratio(std::size_t, double weight_norm, double direction_norm) const {
  return weight_norm / direction_norm;
}

void Lamb::move(std::size_t parameter, const torch::Tensor& direction, double trust) {
  HostTensors here({parameters()[parameter].tensor, direction});
  with_elements(here[0], [&](auto type) {
    using T = decltype(type);
    move_elements(elements_of<T>(here[0]), elements_of<const T>(here[1]),
                  static_cast<T>(learning_rate_of(parameter) * trust));
  });
  here.write_back();
}

std::vector<StateTensor> Lamb::state() {
  return named_state({{"exp_avg", mean_}, {"exp_avg_sq", variance_}});
}

}  // namespace muster::optim
