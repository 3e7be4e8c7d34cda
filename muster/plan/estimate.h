#pragma once
// What a step would take in one way of training: its time, the memory of a worker by kind, the
// bytes that it sends. Computed from what a worker has measured of the model's blocks, by the same
// buckets, trees and schedules that run. Pure, thread-safe.

#include <cstdint>
#include <optional>

#include "muster/base/result.h"
#include "muster/layout/partition.h"
#include "muster/plan/model_profile.h"
#include "muster/plan/simulate.h"
#include "muster/plan/way.h"

namespace muster::plan {

struct MemoryUse {  // bytes, of one worker
  std::uint64_t weights = 0;
  std::uint64_t gradients = 0;  // the buckets in which they are summed
  std::uint64_t optimizer = 0;
  std::uint64_t activations =
      0;                      // at their peak, with gradients in hand and what heaps keep of them
  std::uint64_t buffers = 0;  // sums kept for a retry, messages on their way, others' buckets
  std::uint64_t checkpoint = 0;  // copies that are written from, on the worker that saves
  std::uint64_t process = 0;     // libtorch, the program and its data
  std::uint64_t disk = 0;        // of the optimizer's state; not in the total

  std::uint64_t total() const noexcept {
    return weights + gradients + optimizer + activations + buffers + checkpoint + process;
  }
};

struct StepTime {
  Duration computing{};      // forward and backward, of the worker that has most to do
  Duration waiting{};        // pipeline: while other stages compute
  Duration communication{};  // that nothing hides
  Duration update{};
  Duration total() const noexcept { return computing + waiting + communication + update; }
};

struct Estimate {
  StepTime time;
  MemoryUse memory;  // of the worker that needs most
  std::uint64_t bytes_on_wire =
      0;                   // that the first worker reduces: what the metric of that name says
  std::uint64_t sent = 0;  // by the worker that sends most, with activations
  std::optional<PipelineSimulation> pipeline = {};
  layout::Partition partition = {};  // with a pipeline
};

// kInvalid where the way does not fit the model or its numbers do not fit each other: says which.
Result<Estimate> estimate(const ModelProfile& profile, const Way& way, const Hardware& hardware);

}  // namespace muster::plan
