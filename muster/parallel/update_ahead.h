#pragma once
// An optimizer's update that begins before it is known whether it may be: optimizer first,
// validation after (Qi et al., ICLR 2024, section 4). What it overwrites is kept, parameter by
// parameter, so that it can be rolled back bit by bit; gradients stay as they are. One thread.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "muster/optim/optimizer.h"

namespace muster::parallel {

class UpdateAhead {
 public:
  // `written`: by the optimizer's parameters, all that an update of each writes: first its own
  // tensor, then its state. The optimizer outlives this. Memory for as much is taken with the first
  // updates, and kept.
  UpdateAhead(optim::Optimizer& optimizer, std::vector<std::vector<at::Tensor>> written);

  // Opens the optimizer's step and updates the parameters in their order, the first one at least
  // and the others until `decided`. Throws c10::Error from libtorch; it has begun then as well.
  void begin(double learning_rate, double divisor, std::span<const at::Tensor> gradients,
             const std::function<bool()>& decided);
  bool has_begun() const noexcept { return begun_; }
  // Whether it has begun with these numbers: then it may stand.
  bool has_begun_with(double learning_rate, double divisor) const noexcept {
    return begun_ && learning_rate == learning_rate_ && divisor == divisor_;
  }

  // It stands. So many parameters are updated; the others are to follow in the same step.
  std::size_t accept() noexcept;
  // Parameters, state and steps are those before begin() again, if it has begun.
  void roll_back();

 private:
  void keep(std::size_t parameter);

  optim::Optimizer& optimizer_;
  const std::vector<std::vector<at::Tensor>> written_;
  std::vector<std::vector<at::Tensor>> kept_;  // as they were
  bool begun_ = false;
  double learning_rate_ = 0;
  double divisor_ = 1;
  std::size_t updated_ = 0;  // parameters [0, updated_)
};

}  // namespace muster::parallel
