#include "muster/app/worker/profile.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/app/worker/block_costs.h"
#include "muster/app/worker/build_data.h"
#include "muster/app/worker/build_model.h"
#include "muster/app/worker/profile_parts.h"
#include "muster/app/worker/update_times.h"
#include "muster/base/units.h"
#include "muster/models/create.h"
#include "muster/models/device.h"
#include "muster/models/torch_error.h"
#include "muster/observe/environment.h"
#include "muster/parallel/extras.h"
#include "muster/parallel/lanes.h"
#include "muster/parallel/state_order.h"
#include "muster/plan/model_profile.h"
#include "muster/plan/nearby_workers.h"

namespace muster::app {
namespace {

// Of each block what the optimizer remembers.
Status count_optimizer(const job::JobSpec& job, const models::Model& model,
                       plan::ModelProfile& profile) {
  MUSTER_ASSIGN(const auto optimizer, build_optimizer(job, own_parameters(model)));
  for (const optim::StateTensor& state : optimizer->state()) {
    const std::string owner = parallel::owner_in(state.name);
    for (plan::BlockProfile& block : profile.blocks)
      if (owner.starts_with(block.name + ".")) block.optimizer_bytes += state.tensor.nbytes();
  }
  return ok();
}

// Among the job's workers, among those of one of several replicas, and among those that it could
// have instead.
std::vector<plan::ShardProfile> shards_nearby(const models::Model& model, const job::JobSpec& job) {
  const auto workers = static_cast<std::int32_t>(job.workers.count);
  std::vector<std::int32_t> counts =
      plan::nearby_workers(workers, static_cast<std::int32_t>(job.training.virtual_workers));
  counts.insert(counts.begin(), workers);
  for (std::int32_t shards = workers / 2; shards > 1; --shards)
    if (workers % shards == 0 && std::ranges::find(counts, shards) == counts.end())
      counts.push_back(shards);
  std::vector<plan::ShardProfile> shards;
  job::JobSpec other = job;
  for (const std::int32_t count : counts) {
    other.workers.count = count;
    shards.push_back(shards_of(model, other));
  }
  return shards;
}

// The job's own among them, the smallest first.
std::vector<std::int64_t> pass_sizes(const job::JobSpec& job, std::vector<std::int64_t> sizes) {
  sizes.push_back(job.training.micro_batch_size);
  std::ranges::sort(sizes);
  const auto again = std::ranges::unique(sizes);
  sizes.erase(again.begin(), again.end());
  return sizes;
}

// libtorch is not all there before it has computed something.
void use_libtorch() {
  const auto model = models::create_model(models::MlpSpec{.inputs = 16, .hidden = {16}});
  if (!model) return;
  (*model)->initialize(0);
  models::PassContext context{.training = true, .random = RandomStream(0, "libtorch")};
  const at::Tensor outputs = (*model)->forward(at::ones({4, 16}), context);
  (*model)->loss_sum(outputs, at::zeros({4}, at::kLong)).sum.backward();
}

// From shapes alone.
Result<plan::ModelProfile> count_model(const BuildModel& build, const job::JobSpec& job,
                                       const std::vector<std::int64_t>& sizes) {
  MUSTER_ASSIGN(const auto model, build());
  plan::ModelProfile profile;
  profile.not_measured = "nothing was run";
  for (std::size_t b = 0; b < model->blocks().size(); ++b)
    profile.blocks.push_back(look_at(*model, b));
  profile.notes = static_cast<std::int64_t>(parallel::extra_count(*model));
  for (const plan::BlockProfile& block : profile.blocks) profile.notes -= block.statistics;
  MUSTER_TRY(count_optimizer(job, *model, profile));
  for (const std::int64_t samples : sizes)
    profile.passes.push_back(counted_pass(profile.blocks, samples));
  profile.shards = shards_nearby(*model, job);
  MUSTER_ASSIGN(profile.cuts, cuts_of(profile, build, {}, job));
  return profile;
}

// On libtorch's device whose tensors have sizes, but no memory; a model of a user's own may know
// none but the host's.
Result<plan::ModelProfile> count_without_memory(const BuildModel& build, const job::JobSpec& job,
                                                const std::vector<std::int64_t>& sizes) {
  auto counted = models::catch_torch("worker/profile", [&] {
    const models::ScopedDevice nowhere(c10::kMeta);
    return count_model(build, job, sizes);
  });
  if (counted || job.model.type != job::ModelType::kOwn) return counted;
  return count_model(build, job, sizes);
}

// Weights, gradients and what the optimizer remembers.
std::uint64_t bytes_of(const plan::BlockProfile& block) {
  std::int64_t elements = 2 * block.trained_elements() + block.frozen + block.statistics;
  for (const plan::TiedParameter& tied : block.tied) elements += tied.elements;
  return static_cast<std::uint64_t>(elements) * plan::kFloat + block.optimizer_bytes;
}

// Why not even one block can be run; empty: each can.
std::string no_room(const plan::ModelProfile& profile, std::uint64_t room) {
  const auto& largest = *std::ranges::max_element(profile.blocks, {}, bytes_of);
  if (bytes_of(largest) <= room) return {};
  return fmt::format("running block {} takes {} and more, and there are {}", largest.name,
                     format_bytes(bytes_of(largest)), format_bytes(room));
}

// As if all of it grew with the samples.
plan::PassProfile grown(plan::PassProfile pass, std::int64_t samples) {
  const double by = static_cast<double>(samples) / static_cast<double>(pass.samples);
  const auto grow = [by](auto& number) {
    using Number = std::remove_reference_t<decltype(number)>;
    number = static_cast<Number>(static_cast<double>(number) * by);
  };
  for (plan::BlockPass& block : pass.blocks) {
    for (Duration* time : {&block.forward, &block.backward})
      *time = Duration(static_cast<Duration::rep>(static_cast<double>(time->count()) * by));
    grow(block.activation_bytes);
    grow(block.output_bytes);
  }
  pass.samples = samples;
  return pass;
}

std::uint64_t most_at_once(const plan::ModelProfile& profile, const plan::PassProfile& pass) {
  std::uint64_t most = 0;
  for (std::size_t b = 0; b < pass.blocks.size(); ++b)
    most = std::max(most, bytes_of(profile.blocks[b]) + pass.blocks[b].activation_bytes +
                              pass.blocks[b].backward_bytes);
  return most;
}

struct Measuring {
  Files& files;
  const ProfileOptions& options;
  const BuildModel& build;
  const data::StepBatch& batch;
  const job::JobSpec& job;  // without recomputation
  std::uint64_t room = 0;   // bytes
  PassRoom at_once() const noexcept {
    const std::int32_t passes = options.passes_at_once;
    const auto workers = std::min<std::int64_t>(passes, job.workers.processes());
    return {{passes, std::max(1, static_cast<std::int32_t>(workers))}, room};
  }
};

// Where a larger pass would take more than there is room for, it is what smaller ones grow to.
Result<std::vector<plan::PassProfile>> passes_of(const plan::ModelProfile& profile,
                                                 const models::Model& model,
                                                 const Measuring& with) {
  std::vector<plan::PassProfile> passes;
  job::JobSpec job = with.job;
  for (const plan::PassProfile& wanted : profile.passes) {
    if (!passes.empty()) {
      plan::PassProfile guess = grown(passes.back(), wanted.samples);
      if (most_at_once(profile, guess) > with.room) {
        passes.push_back(std::move(guess));
        continue;
      }
    }
    job.training.micro_batch_size = wanted.samples;
    MUSTER_ASSIGN(auto blocks, measure_passes(model, with.batch, job, with.at_once()));
    passes.push_back({.samples = wanted.samples, .blocks = std::move(blocks)});
  }
  return passes;
}

// What stays when all tensors are gone: the kernels that the blocks have run, compiled ones among
// them, and what libraries keep for the next pass.
std::uint64_t memory_without_tensors(const Measuring& with) {
  with.options.give_back();
  return observe::resident_memory(with.files);
}

// Of all parameters; one block at a time is there, as often as there is room for up to all lanes.
Status measure_updates(plan::ModelProfile& profile, const models::Model& whole,
                       const Measuring& with) {
  profile.update = profile.checksum = {};
  for (std::size_t b = 0; b < whole.blocks().size(); ++b) {
    const std::uint64_t fit = with.room / std::max<std::uint64_t>(1, bytes_of(profile.blocks[b]));
    const auto most = static_cast<std::uint64_t>(with.options.passes_at_once);
    parallel::LanePool lanes(static_cast<std::int32_t>(std::clamp<std::uint64_t>(fit, 1, most)));
    MUSTER_ASSIGN(const UpdateTimes one, time_updates(with.job, whole, b, lanes));
    profile.update += one.update;
    profile.checksum += one.checksum;
  }
  return ok();
}

Status measure_whole(plan::ModelProfile& profile, const Measuring& with) {
  MUSTER_ASSIGN(const auto model, with.build());
  MUSTER_ASSIGN(profile.passes, passes_of(profile, *model, with));
  return measure_updates(profile, *model, with);
}

// `profile`, as it was counted, with what running its blocks finds.
Result<plan::ModelProfile> measure_model(plan::ModelProfile profile, const Measuring& with) {
  MUSTER_TRY(measure_whole(profile, with));
  profile.process_bytes = std::max(profile.process_bytes, memory_without_tensors(with));
  MUSTER_ASSIGN(profile.cuts,
                cuts_of(profile, with.build, {&with.batch, with.at_once()}, with.job));
  profile.not_measured.clear();
  return profile;
}

// Or as it was counted, with the reason, where memory is too short for more.
Result<plan::ModelProfile> measure_or_say_why(plan::ModelProfile profile, const Measuring& with) {
  profile.not_measured = no_room(profile, with.room);
  if (profile.counted()) return profile;
  auto measured =
      models::catch_torch("worker/profile", [&] { return measure_model(profile, with); });
  if (measured || measured.error().code != ErrorCode::kUnavailable) return measured;
  profile.not_measured = measured.error().message;
  return profile;
}

std::string line_of(const plan::ModelProfile& profile) {
  return plan::to_json(profile).dump() + "\n";
}

Result<plan::ModelProfile> profile_of(Files& files, const job::JobSpec& job,
                                      const ProfileOptions& options, const ComponentsPtr& own) {
  MUSTER_ASSIGN(const DataPipelines data, build_data(files, job, *own));
  MUSTER_ASSIGN(const data::StepBatch batch, first_slice(data.training, job));
  use_libtorch();
  const std::uint64_t process = observe::peak_memory(files);
  job::JobSpec wanted = job;
  wanted.training.recompute.clear();  // the planner adds what recomputing costs
  const BuildModel build = [&] { return build_model(wanted, data.training.fields(), own); };
  MUSTER_ASSIGN(plan::ModelProfile profile,
                count_without_memory(build, wanted, pass_sizes(job, options.micro_batches)));
  profile.process_bytes = process;
  if (options.goes_on && !options.goes_on(line_of(profile))) return profile;
  const std::uint64_t room = options.memory - std::min(options.memory, process);
  return measure_or_say_why(std::move(profile), {files, options, build, batch, wanted, room});
}

}  // namespace

Result<std::string> profile_training(Files& files, const job::JobSpec& job,
                                     const ProfileOptions& options, const ComponentsPtr& own) {
  at::set_num_threads(1);  // as lanes have it
  return models::catch_torch("worker/profile", [&]() -> Result<std::string> {
    MUSTER_ASSIGN(const plan::ModelProfile profile, profile_of(files, job, options, own));
    return line_of(profile);
  });
}

}  // namespace muster::app
