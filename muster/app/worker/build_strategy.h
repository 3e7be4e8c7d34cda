#pragma once
// From the job's `strategy` section, and what it needs of the others, to the object that trains.

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/job/spec.h"
#include "muster/layout/mesh.h"
#include "muster/models/model.h"
#include "muster/parallel/model_strategy.h"
#include "muster/parallel/slice_gradients.h"

namespace muster::app {

// How its operations go: time-out, algorithm.
comm::OpOptions build_op_options(const job::CommunicationSpec& communication);

models::ContextAttention attention_of(job::ContextAttention attention);

parallel::BucketSizes bucket_sizes_of(const job::JobSpec& job);

struct StrategyPlace {
  std::int32_t lanes = 1;  // of this worker, where the job does not say
  decltype(parallel::SliceOptions::computing) computing = [](std::int32_t, std::string_view) {};
  comm::Group group;                  // only what cuts the model looks at it
  std::vector<Duration> block_costs;  // for a pipeline that is cut by them (block_costs.h)
  Path scratch = {};  // folder of the optimizer's state, where the job offloads it; empty: memory
};

// The job's workers as a grid.
Result<layout::Mesh> mesh_of(const job::JobSpec& job);
// The same in words, of a hybrid: "replicate 2 x shard 2"; of the other types nothing.
std::string mesh_words(const job::JobSpec& job);

// Whether block_costs are wanted.
bool needs_block_costs(const job::StrategySpec& strategy);

// `model`: not initialised yet.
Result<std::unique_ptr<parallel::ModelStrategy>> build_strategy(
    const job::JobSpec& job, std::unique_ptr<models::Model> model, const StrategyPlace& place);

}  // namespace muster::app
