#pragma once
// The ranks that hold a model's experts between them (expert parallelism: GShard, Lepikhin et al.
// 2021), as a layer of experts sees them: collective operations in the middle of forward and
// backward. Each rank has passes of its own, of other samples; who computes with them sees to it
// that all run as many, also where one has no samples left.

#include <torch/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "muster/models/partition.h"

namespace muster::models {

class ExpertGroup {
 public:
  virtual ~ExpertGroup() = default;

  virtual TensorShare share() const noexcept = 0;  // this rank, and how many there are

  // Throw where a rank does not come. `what` names the values in errors and traces.
  // i64 [ranks, …] to the same: row r goes to rank r, row r of the result is from it.
  virtual torch::Tensor exchange_counts(const torch::Tensor& counts) const = 0;
  // By rank [rows, width]: what goes there, and what comes from there, `arriving` rows. Exactly
  // those travel.
  virtual std::vector<torch::Tensor> exchange(const std::vector<torch::Tensor>& leaving,
                                              const std::vector<std::int64_t>& arriving,
                                              std::string_view what) const = 0;

  // What the pass of rank `source` finds for a parameter of an expert here; undefined: it did not
  // use it. Once a pass for each rank and parameter, in the order of passes.
  virtual void found(const torch::Tensor& parameter, std::int32_t source,
                     const torch::Tensor& gradient) const = 0;
};

}  // namespace muster::models
