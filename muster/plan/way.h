#pragma once
// A way to train a job – who holds what, in which order it is computed – and the machine it would
// run on: what the planner prices. Plain values.

#include <cstdint>
#include <limits>
#include <vector>

#include "muster/base/round_up.h"
#include "muster/base/share.h"
#include "muster/comm/cost.h"
#include "muster/comm/schedule.h"
#include "muster/layout/bucket_layout.h"
#include "muster/layout/pipeline/schedule.h"
#include "muster/layout/pipeline/times.h"
#include "muster/plan/model_profile.h"

namespace muster::plan {

enum class Spread : std::uint8_t {
  kData,      // everybody holds everything
  kSharded,   // each worker keeps the optimizer's state of its share of the parameters (ZeRO)
  kPipeline,  // each worker holds some of the blocks
  kTensor,    // each worker of a replica holds a part of each tensor
  kContext,   // each worker of a replica has some positions of every sequence
  kExpert,    // each worker of a replica holds some of the experts
};

// When a copy of the state is there to be written from.
enum class Saves : std::uint8_t {
  kNever,
  kAtEnd,   // when no step follows
  kBeside,  // in between: from then on beside all steps (checkpoint/snapshot.h)
};

// The axes of a mesh multiply: workers are replicas, each of stages, each of workers that compute
// its slices together. `spread` is what a mesh has first of pipeline, tensor, context, expert and
// sharded.
struct Way {
  Spread spread = Spread::kData;
  std::int32_t workers = 1;
  std::int32_t lanes = 1;  // of each worker
  std::int32_t slices = 8;
  std::int64_t slice_samples = 1;  // of the largest slice
  std::int64_t micro_batch = 1;    // samples of a pass, at most
  std::int64_t samples = 0;        // of a step; 0: all slices are of the largest size
  bool ordered = true;
  bool elastic = false;            // workers keep their sums of a step until it is committed
  bool slices_meet = false;        // a worker has all of its slices in memory at once
  bool compares_replicas = false;  // so of two each reads what it holds around every update
  Saves saves = Saves::kNever;
  bool offloads = false;              // the optimizer's state lies on a disk
  std::vector<bool> recomputed = {};  // by block; empty: none
  layout::BucketSizes buckets{256 << 10, 1 << 20};
  std::int32_t zero_stage = 1;  // sharded: 2: of the gradients too; 3: and of the weights
  // Workers that share out the optimizer's state of what they hold alike; 0: all where sharded.
  std::int32_t shards = 0;
  // tensor:
  std::int32_t tensor = 1;         // workers that hold each tensor between them
  bool sequence_parallel = false;  // activations between cut layers by position
  // context:
  std::int32_t context = 1;  // workers that share each sequence
  Attention attention = Attention::kRing;
  std::int32_t expert = 1;  // workers that hold the experts between them, each with its own slices
  // pipeline:
  std::int32_t stages = 1;
  layout::PipelineKind schedule = layout::PipelineKind::k1F1B;
  std::int32_t chunks_per_stage = 1;
  std::vector<std::int32_t> block_counts = {};  // of each chunk, by hand; empty: by cost
  bool optimizer_first = false;                 // a stage keeps what its update overwrites

  std::int32_t together() const noexcept { return tensor * context; }  // that compute each slice
  std::int32_t that_meet() const noexcept { return together() * expert; }  // in every pass
  std::int32_t workers_of_replica() const noexcept { return stages * together(); }
  std::int32_t replicas() const noexcept { return workers / workers_of_replica(); }
  std::int32_t shard_count() const noexcept {
    if (shards > 0) return shards;
    return spread == Spread::kSharded ? workers : 1;
  }
  // Of a shard of what is no expert's.
  std::int32_t copies() const noexcept { return replicas() / shard_count(); }
  bool is_on_same_mesh(const Way& other) const noexcept {
    return workers == other.workers && stages == other.stages && tensor == other.tensor &&
           context == other.context && expert == other.expert &&
           shard_count() == other.shard_count();
  }
  std::int64_t samples_of(std::int32_t slice) const noexcept {
    return samples > 0 ? even_share(samples, slices, slice).size() : slice_samples;
  }
  std::int32_t passes() const noexcept {  // of a slice
    return static_cast<std::int32_t>(ceil_div(slice_samples, micro_batch));
  }
};

struct Hardware {
  double cores = 1;                                                  // for all workers together
  layout::LinkCost link = {};                                        // between two workers
  comm::Wire wire = comm::Wire::kMemory;                             // what that is
  std::uint64_t memory = std::numeric_limits<std::uint64_t>::max();  // that a worker may take
};

}  // namespace muster::plan
