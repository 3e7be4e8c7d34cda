#pragma once
// LAMB (optimizer.h).

#include <memory>
#include <vector>

#include "muster/optim/norm_scaled.h"

namespace muster::optim {

class Lamb final : public NormScaled {
 public:
  Lamb(const LambSpec& spec, std::vector<OptimizedParameter> parameters,
       std::shared_ptr<OffloadedState> offloaded);
  std::vector<StateTensor> state() override;

 private:
  void direct(std::size_t parameter, torch::Tensor& gradient) override;
  double trust_ratio(std::size_t parameter, double weight_norm,
                     double direction_norm) const override;
  void move(std::size_t parameter, const torch::Tensor& direction, double trust) override;

  LambSpec spec_;
  std::vector<torch::Tensor> mean_;      // exp_avg, one per parameter
  std::vector<torch::Tensor> variance_;  // exp_avg_sq
};

}  // namespace muster::optim
