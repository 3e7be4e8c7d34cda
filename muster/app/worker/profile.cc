#include "muster/app/worker/profile.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/app/worker/block_costs.h"
#include "muster/app/worker/build_data.h"
#include "muster/app/worker/build_model.h"
#include "muster/app/worker/profile_parts.h"
#include "muster/models/torch_error.h"
#include "muster/observe/environment.h"
#include "muster/parallel/extras.h"
#include "muster/parallel/state_order.h"
#include "muster/plan/model_profile.h"
#include "muster/plan/nearby_workers.h"

namespace muster::app {
namespace {

constexpr int kProfileRounds = 3;  // of which the fastest counts

// Of an update of all parameters, and of each block what the optimizer remembers.
Status measure_optimizer(const job::JobSpec& job, const models::Model& model,
                         plan::ModelProfile& profile) {
  std::vector<optim::OptimizedParameter> parameters;
  std::vector<at::Tensor> gradients;
  for (const models::Parameter& parameter : model.parameters()) {
    parameters.push_back({parameter.name, parameter.tensor, parameter.decays});
    gradients.push_back(at::full_like(parameter.tensor.detach(), 1e-3));
  }
  MUSTER_ASSIGN(const auto optimizer, build_optimizer(job, std::move(parameters)));
  profile.update = Duration::max();
  for (int round = 0; round < kProfileRounds; ++round) {
    const TimePoint began = system_clock().now();
    optimizer->begin_step(0);
    optimizer->update({0, gradients.size()}, gradients, 1);
    profile.update = std::min(profile.update, system_clock().now() - began);
  }
  for (const optim::StateTensor& state : optimizer->state()) {
    const std::string owner = parallel::owner_in(state.name);
    for (plan::BlockProfile& block : profile.blocks)
      if (owner.starts_with(block.name + ".")) block.optimizer_bytes += state.tensor.nbytes();
  }
  return ok();
}

// What libtorch, its compiled kernels and the data take: the peak, less what the dearest block did.
std::uint64_t resident_without_blocks(const plan::ModelProfile& profile, std::uint64_t before,
                                      std::uint64_t peak) {
  std::uint64_t most = 0;
  for (const plan::PassProfile& pass : profile.passes)
    for (std::size_t b = 0; b < pass.blocks.size(); ++b) {
      const auto parameters = static_cast<std::uint64_t>(profile.blocks[b].trained_elements() +
                                                         profile.blocks[b].frozen);
      most = std::max(most, pass.blocks[b].activation_bytes + 2 * sizeof(float) * parameters);
    }
  return std::max(before, peak - std::min(most, peak));
}

// Among the job's workers, and among those that it could have instead.
std::vector<plan::ShardProfile> shards_nearby(const models::Model& model, const job::JobSpec& job) {
  const auto workers = static_cast<std::int32_t>(job.workers.count);
  std::vector<std::int32_t> counts =
      plan::nearby_workers(workers, static_cast<std::int32_t>(job.training.virtual_workers));
  counts.insert(counts.begin(), workers);
  std::vector<plan::ShardProfile> shards;
  job::JobSpec other = job;
  for (const std::int32_t count : counts) {
    other.workers.count = count;
    shards.push_back(shards_of(model, other));
  }
  return shards;
}

Result<plan::ModelProfile> profile_of(Files& files, const job::JobSpec& job,
                                      const std::vector<std::int64_t>& micro_batches,
                                      const ComponentsPtr& own) {
  plan::ModelProfile profile;
  MUSTER_ASSIGN(const DataPipelines data, build_data(files, job, *own));
  job::JobSpec wanted = job;
  wanted.training.recompute.clear();  // the planner adds what recomputing costs
  MUSTER_ASSIGN(const auto model, build_model(wanted, data.training.fields(), own));
  MUSTER_ASSIGN(const data::StepBatch batch, first_slice(data.training, job));
  for (std::size_t b = 0; b < model->blocks().size(); ++b)
    profile.blocks.push_back(look_at(*model, b));
  profile.notes = static_cast<std::int64_t>(parallel::extra_count(*model));
  for (const plan::BlockProfile& block : profile.blocks) profile.notes -= block.statistics;
  const std::uint64_t before = observe::peak_memory(files);
  for (const std::int64_t samples : micro_batches) {
    wanted.training.micro_batch_size = samples;
    MUSTER_ASSIGN(auto blocks, measure_passes(*model, batch, wanted));
    profile.passes.push_back({.samples = samples, .blocks = std::move(blocks)});
  }
  profile.process_bytes = resident_without_blocks(profile, before, observe::peak_memory(files));
  model->initialize(job.seed);
  MUSTER_TRY(measure_optimizer(job, *model, profile));
  profile.shards = shards_nearby(*model, job);
  wanted.training.micro_batch_size = job.training.micro_batch_size;
  const auto build = [&] { return build_model(wanted, data.training.fields(), own); };
  MUSTER_ASSIGN(profile.cuts, cuts_of(profile, build, batch, wanted));
  return profile;
}

}  // namespace

Result<std::string> profile_training(Files& files, const job::JobSpec& job,
                                     const std::vector<std::int64_t>& micro_batches,
                                     const ComponentsPtr& own) {
  at::set_num_threads(1);  // as lanes have it
  std::vector<std::int64_t> sizes = micro_batches;
  if (std::ranges::find(sizes, job.training.micro_batch_size) == sizes.end())
    sizes.push_back(job.training.micro_batch_size);
  Result<std::string> text = fail(ErrorCode::kInternal, "[worker/profile] nothing was measured");
  MUSTER_TRY(models::catch_torch("worker/profile", [&] {
    const auto profile = profile_of(files, job, sizes, own);
    text = profile ? Result<std::string>(plan::to_json(*profile).dump() + "\n")
                   : Result<std::string>(tl::unexpected(profile.error()));
  }));
  return text;
}

}  // namespace muster::app
