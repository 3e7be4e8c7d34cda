#pragma once
// LARS (optimizer.h).

#include <memory>
#include <vector>

#include "muster/optim/norm_scaled.h"

namespace muster::optim {

class Lars final : public NormScaled {
 public:
  Lars(const LarsSpec& spec, std::vector<OptimizedParameter> parameters,
       std::shared_ptr<OffloadedState> offloaded);
  std::vector<StateTensor> state() override;

 private:
  void direct(std::size_t, torch::Tensor&) override {}
  double trust_ratio(std::size_t parameter, double weight_norm,
                     double gradient_norm) const override;
  void move(std::size_t parameter, const torch::Tensor& gradient, double trust) override;

  LarsSpec spec_;
  std::vector<torch::Tensor> momentum_;  // one per parameter; of updates, the rate in them
};

}  // namespace muster::optim
