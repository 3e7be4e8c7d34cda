#pragma once
// What a program that trains a model asks of its strategy besides the steps. One thread.

#include <cstdint>

#include "muster/base/result.h"
#include "muster/models/model.h"
#include "muster/parallel/strategy.h"

namespace muster::parallel {

class ModelStrategy : public Strategy {
 public:
  // What this rank holds of the model.
  virtual models::Model& model() const noexcept = 0;
  virtual std::int64_t parameter_count() const {
    return model().parameter_count();
  }  // of the whole
  // Of the optimizer's state, on each of so many ranks.
  virtual std::uint64_t optimizer_bytes(std::int32_t ranks) = 0;
  // Of the weights, likewise: at most.
  virtual std::uint64_t weight_bytes(std::int32_t) {
    return static_cast<std::uint64_t>(model().parameter_count()) * sizeof(float);
  }
  // Of what is kept of weights and optimizer while they are updated, likewise: at most.
  virtual std::uint64_t rollback_bytes() { return 0; }
  // Of gradients, likewise: at least, since ordered mode may hold a few partial sums besides.
  virtual std::uint64_t gradient_bytes(std::int32_t) {
    return static_cast<std::uint64_t>(model().trained_count()) * sizeof(float);
  }
  virtual std::int32_t lanes() const noexcept = 0;

  // Before it enters a generation whose other ranks would wait for its first, slower step: runs the
  // batch's first slice, and nothing comes of it.
  virtual Status warm_up(const data::StepBatch& batch) = 0;
};

}  // namespace muster::parallel
