#pragma once
// The ranks that have a part of every sequence each (context parallelism), as attention sees them:
// collective operations in the middle of forward and backward. Who computes with them sees to it
// that all run the same passes in the same order.

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "muster/models/partition.h"

namespace muster::models {

// How a rank's queries meet the keys of all positions (context_attention.h).
enum class ContextAttention : std::uint8_t {
  kUlysses,  // heads are exchanged for positions
  kRing,     // keys and values go around
};

class ContextGroup {
 public:
  // What the rank before has sent.
  class Arriving {
   public:
    virtual ~Arriving() = default;
    virtual torch::Tensor wait() = 0;  // until it is here, and the own one is away
  };
  virtual ~ContextGroup() = default;

  virtual TensorShare share() const noexcept = 0;  // this rank, and how many there are
  virtual ContextAttention attention() const noexcept = 0;

  // Throw where a rank does not come. `what` names the values in errors and traces.
  // [ranks, …] to the same: block r goes to rank r, block r of the result is from it.
  virtual torch::Tensor exchange(const torch::Tensor& blocks, std::string_view what) const = 0;
  // Sends `tensor` to the next rank and gets one of its shape from the rank before; the last one is
  // before the first. Does not wait. Tensors of one `stream` arrive in order.
  virtual std::unique_ptr<Arriving> pass_on(const torch::Tensor& tensor, std::uint32_t stream,
                                            std::string_view what) const = 0;
};

}  // namespace muster::models
