#include "muster/app/worker/describe.h"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "muster/app/worker/block_costs.h"
#include "muster/app/worker/build_data.h"
#include "muster/app/worker/build_model.h"
#include "muster/app/worker/build_strategy.h"
#include "muster/app/worker/memory.h"
#include "muster/app/worker/model_needs.h"
#include "muster/app/worker/start_weights.h"
#include "muster/base/share.h"
#include "muster/base/units.h"
#include "muster/data/batch_advice.h"
#include "muster/models/torch_error.h"

namespace muster::app {
namespace {

std::string layout_line(const job::JobSpec& job) {
  const auto workers = static_cast<std::int32_t>(job.workers.count);
  const auto together = static_cast<std::int32_t>(job.strategy.workers_of_replica());
  const std::int32_t replicas = workers / together;
  const auto slices = static_cast<std::int32_t>(job.training.virtual_workers);
  const std::int64_t least = even_share(slices, replicas, replicas - 1).size();
  const std::int64_t most = even_share(slices, replicas, 0).size();
  const std::string each =
      least == most ? fmt::format("{}", most) : fmt::format("{} or {}", least, most);
  const std::string shared =
      together == 1 ? "" : fmt::format(", {} of {}", counted(replicas, "replica"), together);
  const std::string mesh = mesh_words(job);
  return fmt::format("layout      {}{}{}, {} slice{} of the batch each ({} in all), {} a step",
                     counted(workers, "worker"), mesh.empty() ? "" : " as " + mesh, shared, each,
                     each == "1" ? "" : "s", slices,
                     counted(job.training.global_batch_size, "sample"));
}

// As the first worker would have it.
Result<StrategyPlace> place_without_group(const job::JobSpec& job, const data::StepBatch& batch,
                                          const models::Model& model) {
  StrategyPlace place{.lanes = 1,
                      .group = {.size = static_cast<std::int32_t>(job.workers.count)},
                      .block_costs = {},
                      .scratch = {}};  // nothing is updated
  if (needs_block_costs(job.strategy)) {
    MUSTER_ASSIGN(place.block_costs, measure_blocks(model, batch, job));
  }
  return place;
}

// On one worker.
Result<Activations> activations_of(const job::JobSpec& job, const models::Model& model,
                                   const data::StepBatch& batch,
                                   const std::vector<data::FieldSpec>& fields,
                                   const ComponentsPtr& own) {
  const job::StrategySpec& strategy = job.strategy;
  if (strategy.core() != job::StrategyType::kContext || strategy.context == 1)
    return measure_activations(model, batch, job);
  MUSTER_ASSIGN(const auto shared, build_model(job, fields, own));
  MUSTER_TRY(shared->share_sequences(std::make_shared<const CountedContext>(
      static_cast<std::int32_t>(strategy.context), attention_of(strategy.attention),
      std::make_shared<RankNotes>())));
  shared->initialize(job.seed);
  return measure_own_activations(*shared, batch, job);
}

Result<std::string> describe(Files& files, const job::JobSpec& job, const DataPipelines& data,
                             const ComponentsPtr& own) {
  MUSTER_ASSIGN(auto model, build_model(job, data.training.fields(), own));
  MUSTER_TRY(check_weights(files, job, *model));
  const std::string about = model->describe();
  const std::vector<std::string> tensors = tensor_names(*model);
  MUSTER_ASSIGN(const data::StepBatch batch, first_slice(data.training, job));
  MUSTER_ASSIGN(const Activations activations,
                activations_of(job, *model, batch, data.training.fields(), own));
  MUSTER_ASSIGN(const StrategyPlace place, place_without_group(job, batch, *model));
  MUSTER_ASSIGN(const auto strategy, build_strategy(job, std::move(model), place));
  MUSTER_TRY(start_from_weights(files, job.model, tensors, *strategy));
  const std::int64_t samples = data.training.source().size();
  const train::TrainingLength length = training_length(job.training, samples);
  MUSTER_TRY(build_schedule(job, length, samples));
  const std::string advice = data::advice_on_batch(samples, job.training.global_batch_size);
  const StateMemory memory =
      state_memory(*strategy, static_cast<std::int32_t>(job.workers.count), offloads(job));
  return fmt::format(
      "job         {}\nmodel       {}\ndata        {}, {} for evaluation\n"
      "length      {}, {} an epoch\n{}\n"
      "memory      {} a worker without activations: weights {}, gradients at least {}, optimizer "
      "{}{}{}\n"
      "activations {} kept for backward by each pass of {}\n{}",
      job.name, about, counted(samples, "training sample"), data.evaluation.source().size(),
      counted(length.total_steps, "step"), length.steps_per_epoch, layout_line(job),
      format_bytes(memory.total()), format_bytes(memory.weights), format_bytes(memory.gradients),
      format_bytes(memory.optimizer), for_rollback(memory), on_disk(memory),
      format_bytes(static_cast<std::uint64_t>(activations.bytes)),
      counted(activations.samples, "sample"),
      advice.empty() ? "" : fmt::format("warning     {}\n", advice));
}

// A model that is too large to be looked at is told with what it needs.
Result<std::string> describe_or_size(Files& files, const job::JobSpec& job,
                                     const ComponentsPtr& own) {
  MUSTER_ASSIGN(const DataPipelines data, build_data(files, job, *own));
  auto text =
      models::catch_torch("worker/describe", [&] { return describe(files, job, data, own); });
  if (text) return text;
  return with_needs(std::move(text).error(), job, data.training.fields(), own);
}

}  // namespace

Result<std::string> describe_training(Files& files, const job::JobSpec& job,
                                      const ComponentsPtr& own) {
  return models::catch_torch("worker/describe", [&] { return describe_or_size(files, job, own); });
}

}  // namespace muster::app
