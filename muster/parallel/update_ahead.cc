#include "muster/parallel/update_ahead.h"

#include <torch/types.h>

#include <utility>

#include "muster/base/check.h"

namespace muster::parallel {

UpdateAhead::UpdateAhead(optim::Optimizer& optimizer, std::vector<std::vector<at::Tensor>> written)
    : optimizer_(optimizer), written_(std::move(written)), kept_(written_.size()) {
  MUSTER_CHECK(written_.size() == optimizer_.size(), "what is written of every parameter");
}

void UpdateAhead::begin(double learning_rate, double divisor, std::span<const at::Tensor> gradients,
                        const std::function<bool()>& decided) {
  MUSTER_CHECK(!begun_, "the update before has been accepted or rolled back");
  MUSTER_CHECK(gradients.size() == written_.size(), "one gradient for each parameter");
  begun_ = true;
  learning_rate_ = learning_rate;
  divisor_ = divisor;
  updated_ = 0;
  optimizer_.begin_step(learning_rate);
  while (updated_ < written_.size() && (updated_ == 0 || !decided())) {
    const std::size_t p = updated_;
    keep(p);
    // The optimizer divides it in place, and the sums may be needed again.
    const at::Tensor gradient = gradients[p].to(written_[p].front().device(),
                                                gradients[p].scalar_type(), /*non_blocking=*/false,
                                                /*copy=*/true);
    ++updated_;
    optimizer_.update({p, p + 1}, std::span(&gradient, 1), divisor);
  }
}

void UpdateAhead::keep(std::size_t parameter) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor>& kept = kept_[parameter];
  const std::vector<at::Tensor>& written = written_[parameter];
  if (kept.empty())
    for (const at::Tensor& tensor : written) kept.push_back(at::empty_like(tensor));
  for (std::size_t i = 0; i < written.size(); ++i) kept[i].copy_(written[i]);
}

std::size_t UpdateAhead::accept() noexcept {
  begun_ = false;
  return updated_;
}

void UpdateAhead::roll_back() {
  if (!begun_) return;
  const at::NoGradGuard no_grad;
  for (std::size_t p = 0; p < updated_; ++p)
    for (std::size_t i = 0; i < written_[p].size(); ++i)
      at::Tensor(written_[p][i]).copy_(kept_[p][i]);
  optimizer_.set_steps(optimizer_.steps() - 1);
  begun_ = false;
}

}  // namespace muster::parallel
