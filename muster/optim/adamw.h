#pragma once
// AdamW (optimizer.h).

#include <memory>
#include <vector>

#include "muster/optim/optimizer.h"

namespace muster::optim {

class AdamW final : public Optimizer {
 public:
  AdamW(const AdamWSpec& spec, std::vector<OptimizedParameter> parameters,
        std::shared_ptr<OffloadedState> offloaded);
  std::vector<StateTensor> state() override;

 private:
  void update_group(const Group& group) override;

  AdamWSpec spec_;
  std::vector<torch::Tensor> mean_;      // exp_avg, one per parameter
  std::vector<torch::Tensor> variance_;  // exp_avg_sq
};

}  // namespace muster::optim
