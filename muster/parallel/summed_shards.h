#pragma once
// Where the sums of gradients lie from which a rank updates its shard of the parameters, and how
// what comes of that reaches the others: one for each kind of exchange. One thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "muster/base/result.h"
#include "muster/parallel/sharded_optimizer.h"

namespace muster::parallel {

class SummedShards {
 public:
  virtual ~SummedShards() = default;

  // Lays the optimizer's gradients over the sums.
  virtual void lay_under() const = 0;
  // After the exchange has finished: this rank's shard of the sums is whole.
  virtual Status gather_sums() { return ok(); }
  // `rows`: of the parameters, as the optimizer has its own. The parameters get those of all peers;
  // the sums are gone then.
  virtual Status share(const std::vector<at::Tensor>& rows, const OnLanes& on_lanes) = 0;
  // That share() sends, besides what the exchange counts.
  virtual std::uint64_t shared_bytes() const { return 0; }
};

}  // namespace muster::parallel
