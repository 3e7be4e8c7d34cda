#include "muster/parallel/gradient_hook.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

namespace muster::parallel {
namespace {

class GradientHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit GradientHook(std::function<void(at::Tensor)> found) : found_(std::move(found)) {}

  void operator()(const torch::autograd::Variable& parameter) override {
    // Called as well where a recomputed block turns out not to have used the parameter.
    if (!parameter.grad().defined()) return;
    found_(std::exchange(parameter.mutable_grad(), {}));
  }

 private:
  const std::function<void(at::Tensor)> found_;
};

}  // namespace

void when_gradient_is_found(const at::Tensor& parameter, std::function<void(at::Tensor)> found) {
  torch::autograd::impl::set_post_acc_grad_hooks(parameter,
                                                 std::make_unique<GradientHook>(std::move(found)));
}

}  // namespace muster::parallel
