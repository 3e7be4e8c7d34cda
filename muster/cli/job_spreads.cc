#include "muster/cli/job_spreads.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "muster/job/enum_names.h"
#include "muster/job/mesh_axes.h"
#include "muster/job/read_value.h"

namespace muster::cli {
namespace {

using job::PipelineSchedule;
using Spreads = std::vector<JobSpread>;

bool same_mesh(const job::MeshSpec& a, const job::MeshSpec& b) {
  return std::ranges::all_of(
      job::kMeshAxes, [&](const job::MeshAxis& axis) { return a.*axis.extent == b.*axis.extent; });
}

void each_divisor(std::int64_t of, const auto& body) {
  for (std::int64_t divisor = 1; divisor <= of; ++divisor)
    if (of % divisor == 0) body(divisor);
}

// In how many parts the workers of a job may be cut.
void each_cut(const job::JobSpec& job, const auto& body) {
  each_divisor(job.workers.count, [&](std::int64_t parts) {
    if (parts > 1) body(parts);
  });
}

// What the job says of its pipeline, where this is the one. Names of blocks are known to the job of
// one of muster's models, and then it has numbers.
void add_written_chunks(const job::StrategySpec& strategy, JobSpread& spread) {
  spread.values.emplace_back("strategy.chunks_per_stage",
                             std::to_string(strategy.chunks_per_stage));
  if (strategy.optimizer_first) spread.values.emplace_back("strategy.optimizer_first", "true");
  if (!strategy.blocks.empty())
    spread.values.emplace_back("strategy.blocks",
                               fmt::format("[{}]", fmt::join(strategy.blocks, ", ")));
  else if (!strategy.placement.empty())
    spread.values.emplace_back("strategy.placement", job::print_value(strategy.placement).text);
}

// Of a replica; all numbers of stages that divide the workers.
void add_pipelines(const job::JobSpec& job, Spreads& spreads) {
  const auto& strategy = job.strategy;
  const bool written = strategy.type == job::StrategyType::kPipeline;
  each_cut(job, [&](std::int64_t stages) {
    for (const auto schedule :
         {PipelineSchedule::k1F1B, PipelineSchedule::kInterleaved, PipelineSchedule::kZbH1,
          PipelineSchedule::kZbV, PipelineSchedule::kGPipe}) {
      const std::string word(job::to_string(schedule));
      JobSpread spread{.name = fmt::format("{}, {} stages", word, stages),
                       .values = {{"strategy.type", "pipeline"},
                                  {"strategy.stages", std::to_string(stages)},
                                  {"strategy.schedule", word}}};
      if (written && strategy.stages == stages && strategy.schedule == schedule)
        add_written_chunks(strategy, spread);
      spreads.push_back(std::move(spread));
    }
  });
}

// ZeRO's stages: each shares more out, and sends more.
void add_shards(Spreads& spreads) {
  spreads.push_back({"sharded", {{"strategy.type", "sharded"}}});
  for (const std::string stage : {"2", "3"})
    spreads.push_back({fmt::format("sharded, stage {}", stage),
                       {{"strategy.type", "sharded"}, {"strategy.zero_stage", stage}}});
}

bool has_sequences(const job::JobSpec& job) {
  return job.model.type != job::ModelType::kMlp && job.model.type != job::ModelType::kResnet;
}

// All numbers of parts that divide the workers.
void add_tensors(const job::JobSpec& job, Spreads& spreads) {
  each_cut(job, [&](std::int64_t ranks) {
    JobSpread spread{
        .name = fmt::format("tensor, {} parts", ranks),
        .values = {{"strategy.type", "tensor"}, {"strategy.tensor", std::to_string(ranks)}},
        .together = true,
        .meets = true};
    spreads.push_back(spread);
    if (!has_sequences(job)) return;
    spread.name += ", sequences";
    spread.values.emplace_back("strategy.sequence_parallel", "true");
    spreads.push_back(std::move(spread));
  });
}

// Sequences shared by all numbers of workers that divide those of the job.
void add_contexts(const job::JobSpec& job, Spreads& spreads) {
  if (job.data.type != job::DataType::kText) return;
  each_cut(job, [&](std::int64_t ranks) {
    for (const auto attention : {job::ContextAttention::kUlysses, job::ContextAttention::kRing}) {
      const std::string word(job::to_string(attention));
      spreads.push_back({.name = fmt::format("{}, {} parts", word, ranks),
                         .values = {{"strategy.type", "context"},
                                    {"strategy.context", std::to_string(ranks)},
                                    {"strategy.attention", word}},
                         .together = true,
                         .meets = true});
    }
  });
}

// Experts on all numbers of workers that divide those of the job.
void add_experts(const job::JobSpec& job, Spreads& spreads) {
  if (job.model.type != job::ModelType::kMoe) return;
  each_cut(job, [&](std::int64_t ranks) {
    spreads.push_back(
        {.name = fmt::format("expert, {} parts", ranks),
         .values = {{"strategy.type", "expert"}, {"strategy.expert", std::to_string(ranks)}},
         .meets = true});
  });
}

// "pipeline 2 × shard 2"
JobSpread on_mesh(const job::MeshSpec& mesh) {
  std::vector<std::string> axes;
  JobSpread spread{.name = {},
                   .values = {{"strategy.type", "hybrid"}},
                   .together = mesh.tensor * mesh.context > 1,
                   .meets = mesh.tensor * mesh.context * mesh.expert > 1,
                   .product = true};
  for (const job::MeshAxis& axis : job::kMeshAxes) {
    if (mesh.*axis.extent == 1) continue;
    axes.push_back(fmt::format("{} {}", axis.name, mesh.*axis.extent));
    spread.values.emplace_back(axis.field, std::to_string(mesh.*axis.extent));
  }
  spread.name = fmt::format("{}", fmt::join(axes, " × "));
  return spread;
}

// Each of `spreads` with each of the words for the field; an empty one leaves the field out.
struct Word {
  std::string name;
  std::string value;
};
Spreads with_each(const Spreads& spreads, const std::string& field,
                  const std::vector<Word>& words) {
  Spreads all;
  for (const JobSpread& spread : spreads)
    for (const Word& word : words) {
      JobSpread& one = all.emplace_back(spread);
      if (word.value.empty()) continue;
      one.name += ", " + word.name;
      one.values.emplace_back(field, word.value);
    }
  return all;
}

// 1F1B, and what waits less for the same memory; which other schedule is better is seen of the
// pipelines without further axes. And the job's own.
Spreads with_schedules(const Spreads& spreads, const job::MeshSpec& mesh,
                       const job::StrategySpec& strategy) {
  std::vector<PipelineSchedule> schedules = {PipelineSchedule::k1F1B, PipelineSchedule::kZbH1};
  const bool written =
      strategy.type == job::StrategyType::kHybrid && same_mesh(mesh, strategy.mesh);
  if (written && std::ranges::find(schedules, strategy.schedule) == schedules.end())
    schedules.push_back(strategy.schedule);
  Spreads all;
  for (const PipelineSchedule schedule : schedules) {
    const std::string word(job::to_string(schedule));
    Spreads some = with_each(spreads, "strategy.schedule", {{word, word}});
    for (JobSpread& spread : some) {
      if (written && strategy.schedule == schedule) add_written_chunks(strategy, spread);
      all.push_back(std::move(spread));
    }
  }
  return all;
}

void add_mesh(const job::JobSpec& job, const job::MeshSpec& mesh, Spreads& spreads) {
  Spreads found = {on_mesh(mesh)};
  if (mesh.pipeline > 1) found = with_schedules(found, mesh, job.strategy);
  if (mesh.tensor > 1 && has_sequences(job))
    found = with_each(found, "strategy.sequence_parallel", {{}, {"sequences", "true"}});
  if (mesh.context > 1)
    found = with_each(found, "strategy.attention", {{"ulysses", "ulysses"}, {"ring", "ring"}});
  if (mesh.pipeline * mesh.tensor * mesh.context * mesh.expert == 1)
    found = with_each(found, "strategy.zero_stage", {{}, {"stage 2", "2"}, {"stage 3", "3"}});
  std::ranges::move(found, std::back_inserter(spreads));
}

// Whether it has more axes than one and its replicas, which the types above are; shards of several
// replicas are more than a type.
bool is_product(const job::MeshSpec& mesh) {
  int cuts = 0;
  for (const std::int64_t extent : {mesh.pipeline, mesh.tensor, mesh.context, mesh.expert})
    cuts += extent > 1 ? 1 : 0;
  return mesh.shard > 1 ? cuts > 0 || mesh.replicate > 1 : cuts > 1;
}

// How so many workers can meet in every pass, as the planner knows it: of the models that may, with
// cut tensors, shared sequences or dealt experts, or with tensors cut and experts dealt.
std::vector<job::MeshSpec> meetings_of(const job::JobSpec& job, std::int64_t workers) {
  if (workers == 1) return {{}};
  std::vector<job::MeshSpec> meetings = {{.tensor = workers}};
  if (job.data.type == job::DataType::kText) meetings.push_back({.context = workers});
  if (job.model.type == job::ModelType::kMoe)
    each_divisor(workers, [&](std::int64_t tensor) {
      if (tensor < workers) meetings.push_back({.expert = workers / tensor, .tensor = tensor});
    });
  return meetings;
}

void add_meshes(const job::JobSpec& job, Spreads& spreads) {
  const std::int64_t workers = job.workers.count;
  each_divisor(workers, [&](std::int64_t pipeline) {
    each_divisor(workers / pipeline, [&](std::int64_t shard) {
      each_divisor(workers / pipeline / shard, [&](std::int64_t together) {
        for (job::MeshSpec mesh : meetings_of(job, together)) {
          mesh.replicate = workers / pipeline / shard / together;
          mesh.pipeline = pipeline;
          mesh.shard = shard;
          if (is_product(mesh)) add_mesh(job, mesh, spreads);
        }
      });
    });
  });
}

}  // namespace

std::vector<JobSpread> spreads_of(const job::JobSpec& job) {
  Spreads spreads = {{"data", {{"strategy.type", "data"}}}};
  if (job.workers.count == 1) return spreads;
  add_shards(spreads);
  add_pipelines(job, spreads);
  add_tensors(job, spreads);
  add_contexts(job, spreads);
  add_experts(job, spreads);
  add_meshes(job, spreads);
  return spreads;
}

}  // namespace muster::cli
