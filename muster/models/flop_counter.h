#pragma once
// How many floating-point operations libtorch's matrix products, convolutions and attentions are:
// two for each product that goes into a sum. Counts what its thread runs while it lives, forward
// and backward, each by what the shapes ask for, however a kernel comes to it (attention counts as
// if nothing were masked and nothing computed again). All else counts as nothing: norms,
// activations, and libtorch's recurrent layers. Under Autocast operators call themselves again, and
// count twice. Those are the rules of torch.utils.flop_counter, and of the model FLOPs of which
// PaLM (Chowdhery et al. 2022, appendix B) takes the utilisation.

#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace muster::models {

class FlopCounter {  // one at a time in a thread
 public:
  FlopCounter();
  ~FlopCounter();
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;

  double counted() const noexcept;

 private:
  class Sum;
  std::shared_ptr<Sum> sum_;
  c10::DebugInfoGuard installed_;
  std::uint64_t callback_;
};

}  // namespace muster::models
