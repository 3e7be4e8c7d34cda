#pragma once
// SGD with momentum (optimizer.h).

#include <memory>
#include <vector>

#include "muster/optim/optimizer.h"

namespace muster::optim {

class Sgd final : public Optimizer {
 public:
  Sgd(const SgdSpec& spec, std::vector<OptimizedParameter> parameters,
      std::shared_ptr<OffloadedState> offloaded);
  std::vector<StateTensor> state() override;

 private:
  void update_group(const Group& group) override;

  SgdSpec spec_;
  std::vector<torch::Tensor> momentum_;  // one per parameter; empty without momentum
};

}  // namespace muster::optim
