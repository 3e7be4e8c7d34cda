#include "muster/optim/adamw.h"

#include <torch/types.h>

#include <utility>

namespace muster::optim {

AdamW::AdamW(const AdamWSpec& spec, std::vector<OptimizedParameter> parameters)
    : Optimizer(std::move(parameters)), spec_(spec) {
  for (const auto& parameter : this->parameters()) {
    mean_.push_back(torch::zeros_like(parameter.tensor));
    variance_.push_back(torch::zeros_like(parameter.tensor));
  }
}

void AdamW::update_group(const Group& group) {
  const bool decays = group.decays || spec_.decay_norms_and_biases;
  std::vector<torch::Tensor> mean, variance;
  for (const auto i : group.index) {
    mean.push_back(mean_[i]);
    variance.push_back(variance_[i]);
  }
  const auto step = torch::full({}, static_cast<double>(steps()), torch::kFloat32);
  const std::vector<torch::Tensor> all_steps(group.index.size(), step);
  at::_fused_adamw_(group.parameters, group.gradients, mean, variance, {}, all_steps,
                    learning_rate(), spec_.beta1, spec_.beta2, decays ? spec_.weight_decay : 0,
                    spec_.epsilon, /*amsgrad=*/false, /*maximize=*/false);
}

std::vector<StateTensor> AdamW::state() {
  std::vector<StateTensor> state;
  for (std::size_t i = 0; i < mean_.size(); ++i) {
    const std::string prefix = "optimizer/" + parameters()[i].name;
    state.push_back({prefix + "/exp_avg", mean_[i]});
    state.push_back({prefix + "/exp_avg_sq", variance_[i]});
  }
  return state;
}

}  // namespace muster::optim
