#pragma once
// What a step computes on, as the data layer hands it over.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/ids.h"
#include "muster/base/tensor_view.h"
#include "muster/data/roll_call.h"
#include "muster/data/step_plan.h"

namespace muster::data {

// The samples of one virtual worker in one step. The tensors live in `storage`, 64-byte aligned
// each; who keeps a copy of the pointer keeps the bytes. The memory is recycled after the last
// copy.
struct SliceBatch {
  SliceIndex slice{0};
  Share positions;                  // within the epoch
  std::int64_t samples = 0;         // may be 0 in a short batch
  std::uint64_t mark = 0;           // for the roll call
  std::vector<NamedTensor> fields;  // [samples, …] each
  std::shared_ptr<std::byte> storage;

  const TensorView& field(std::string_view name) const;  // which must exist
};

struct StepBatch {
  Cursor before;                   // where the step begins
  Cursor after;                    // to be committed with it
  std::int64_t samples = 0;        // of all slices of all workers
  std::uint64_t roll = 0;          // the sum of their marks
  std::vector<SliceBatch> slices;  // mine, in order
  Duration waited{0};              // how long next() waited for it
};

}  // namespace muster::data
