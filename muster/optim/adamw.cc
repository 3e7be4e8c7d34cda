#include "muster/optim/adamw.h"

#include <torch/types.h>

#include <utility>

namespace muster::optim {

AdamW::AdamW(const AdamWSpec& spec, std::vector<OptimizedParameter> parameters,
             std::shared_ptr<OffloadedState> offloaded)
    : Optimizer(std::move(parameters), {spec.weight_decay, spec.decay_norms_and_biases},
                std::move(offloaded)),
      spec_(spec),
      mean_(zeros()),
      variance_(zeros()) {}

void AdamW::update_group(const Group& group) {
  std::vector<torch::Tensor> mean, variance;
  for (const auto i : group.index) {
    mean.push_back(mean_[i]);
    variance.push_back(variance_[i]);
  }
  const auto step = torch::full({}, static_cast<double>(steps()),
                                group.parameters.front().options().dtype(torch::kFloat32));
  const std::vector<torch::Tensor> all_steps(group.index.size(), step);
  at::_fused_adamw_(group.parameters, group.gradients, mean, variance, {}, all_steps,
                    group.learning_rate, spec_.beta1, spec_.beta2, group.weight_decay,
                    spec_.epsilon, /*amsgrad=*/false, /*maximize=*/false);
}

std::vector<StateTensor> AdamW::state() {
  return named_state({{"exp_avg", mean_}, {"exp_avg_sq", variance_}});
}

}  // namespace muster::optim
