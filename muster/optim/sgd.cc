#include "muster/optim/sgd.h"

#include <torch/types.h>

#include <utility>

namespace muster::optim {

Sgd::Sgd(const SgdSpec& spec, std::vector<OptimizedParameter> parameters,
         std::shared_ptr<OffloadedState> offloaded)
    : Optimizer(std::move(parameters), {spec.weight_decay, spec.decay_norms_and_biases},
                std::move(offloaded)),
      spec_(spec) {
  if (spec_.momentum != 0) momentum_ = zeros();
}

void Sgd::update_group(const Group& group) {
  double decay = group.weight_decay;
  if (spec_.decoupled_decay && decay != 0)
    at::_foreach_mul_(group.parameters,
                      at::Scalar(1 - group.learning_rate * std::exchange(decay, 0)));
  std::vector<torch::Tensor> momentum;
  if (!momentum_.empty())
    for (const auto i : group.index) momentum.push_back(momentum_[i]);
  // A buffer of zeros gives momentum's first step its value; no first step of its own is needed.
  at::_fused_sgd_(group.parameters, group.gradients, momentum, decay, spec_.momentum,
                  group.learning_rate, /*dampening=*/0.0, spec_.nesterov, /*maximize=*/false,
                  /*is_first_step=*/false);
}

std::vector<StateTensor> Sgd::state() { return named_state({{"momentum", momentum_}}); }

}  // namespace muster::optim
