// What a strategy asks of the rest of the job.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <iterator>
#include <numeric>
#include <vector>

#include "muster/job/draft.h"
#include "muster/job/enum_names.h"
#include "muster/job/mesh_axes.h"
#include "muster/job/placement.h"

namespace muster::job {
namespace {

constexpr std::string_view kCause = "strategy.type";

void refuse(Draft& draft, std::string_view field, std::string_view why, std::string help) {
  draft.refuse(kCause, field, why, std::move(help));
}

template <class T>
void fix(Draft& draft, std::string_view field, T& value, const T& needed, std::string_view why,
         const std::string& help) {
  draft.settle(kCause, field, value, needed, why, help);
}

// Why none of the workers can be done without.
std::string_view held_alone(StrategyType type) {
  switch (type) {
    case StrategyType::kSharded:
      return "keeps each part of the optimizer's state on one worker, so that all are needed";
    case StrategyType::kTensor:
      return "keeps each part of the model's tensors on one worker, so that all are needed";
    case StrategyType::kExpert:
      return "keeps each expert of a replica on one worker, so that all are needed";
    case StrategyType::kContext:
      return "has the workers of a replica share each sequence, so that all are needed";
    default:
      return "keeps each block of the model on one worker, so that all are needed";
  }
}

void fix_membership(Draft& draft) {
  const std::string_view why = held_alone(draft.spec.strategy.core());
  const std::string help =
      "leave it out: for one that dies a new worker is started in its place "
      "(workers.max_restarts); or use strategy.type: data";
  WorkersSpec& workers = draft.spec.workers;
  fix(draft, "workers.min_workers", workers.min_workers, workers.count, why, help);
  if (draft.given("workers.max_workers") && workers.max_workers > workers.processes())
    refuse(draft, "workers.max_workers", why, help);
  if (draft.spec.autoscaling.policy != AutoscalingPolicy::kNone)
    refuse(draft, "autoscaling.policy", why, help);
  if (draft.spec.stragglers.evict_factor > 0) refuse(draft, "stragglers.evict_factor", why, help);
}

void check_redundancy(Draft& draft) {
  const StrategySpec& strategy = draft.spec.strategy;
  if (strategy.redundancy == 0) return;
  const bool all_hold_all = strategy.core() == StrategyType::kData ||
                            (strategy.core() == StrategyType::kContext && strategy.mesh.shard == 1);
  if (all_hold_all)
    return draft.complain({"strategy.redundancy"},
                          "strategy.redundancy 1 is for what not all workers hold, and in this "
                          "mesh all hold everything",
                          "leave it out: the others go on, or give it to whoever comes anew");
  if (draft.spec.optimizer.offload == OffloadKind::kDisk)
    return draft.complain({"strategy.redundancy", "optimizer.offload"},
                          "strategy.redundancy 1 keeps the neighbour's state in memory, and "
                          "optimizer.offload disk is for what memory has no room for",
                          "use one of the two; without redundancy, those who come anew go back to "
                          "the last checkpoint");
  const WorkersSpec& workers = draft.spec.workers;
  if (workers.count == 1)
    return draft.complain({"strategy.redundancy", "workers.count"},
                          "strategy.redundancy 1 needs a neighbour, and workers.count is 1",
                          "leave it out, or use more workers");
  if (workers.max_restarts > 0 || workers.standbys > 0) return;
  draft.complain({"strategy.redundancy", "workers.max_restarts"},
                 "strategy.redundancy 1 is for those who come in the place of the dead, and "
                 "workers.max_restarts 0 starts none",
                 "use one of the two");
}

// Of the stages of a pipeline.
void check_optimizer_first(Draft& draft) {
  const StrategySpec& strategy = draft.spec.strategy;
  if (!strategy.optimizer_first) return;
  const OptimizerSpec& optimizer = draft.spec.optimizer;
  if (optimizer.offload == OffloadKind::kDisk)
    draft.complain({"strategy.optimizer_first", "optimizer.offload"},
                   "strategy.optimizer_first keeps the optimizer's state in memory once more, and "
                   "optimizer.offload disk is for what memory has no room for",
                   "use one of the two");
  const bool needs_norms =
      optimizer.type == OptimizerType::kLars || optimizer.type == OptimizerType::kLamb;
  if (!needs_norms || strategy.mesh.shard * strategy.mesh.tensor == 1) return;
  draft.complain({"strategy.optimizer_first", "optimizer.type"},
                 fmt::format("strategy.optimizer_first has each worker update by itself, and "
                             "optimizer.type {} needs norms of tensors that several workers have "
                             "parts of in the mesh {}",
                             draft.shown("optimizer.type"), mesh_text(strategy.mesh)),
                 "leave it out, or use adamw or sgd, or a mesh without shard and tensor");
}

// What a strategy says of workers that compute slices together.
struct Together {
  std::string_view slices;      // how they do
  std::string_view more_cores;  // what these are for
};
constexpr Together kStages = {"has every slice computed by all stages of a replica, one at a time",
                              "leave it out: more cores serve more stages"};
constexpr Together kTensors = {
    "has every slice computed by all workers of a replica, one at a time",
    "leave it out: more cores serve more workers"};
constexpr Together kSequences = {
    "has every slice computed by all workers of a replica, one at a time",
    "leave it out: more cores serve more workers"};

constexpr Together kExperts = {
    "has all workers of a replica compute at the same time, one slice each",
    "leave it out: more cores serve more workers"};

void fix_slices(Draft& draft, const Together& together) {
  const std::string_view why = together.slices;
  StragglersSpec& stragglers = draft.spec.stragglers;
  fix(draft, "stragglers.rebalance", stragglers.rebalance, false, why,
      "leave it out: slices are shared out evenly");
  fix(draft, "stragglers.backup", stragglers.backup, false, why, "leave it out");
  fix(draft, "training.mode", draft.spec.training.mode, TrainingMode::kOrdered, why,
      "use training.mode: ordered");
  if (draft.spec.training.lanes.value_or(1) > 1)
    refuse(draft, "training.lanes", why, std::string(together.more_cores));
  draft.spec.training.lanes = 1;
}

// How many workers hold the same part of the state. Of a type that is no mesh: how many replicas
// there are, of so many workers each.
std::int64_t holders_of_part(const Draft& draft, std::int64_t workers_of_replica) {
  const StrategySpec& strategy = draft.spec.strategy;
  if (strategy.type == StrategyType::kHybrid)
    return strategy.mesh.replicate * strategy.mesh.context;
  return draft.spec.workers.count / workers_of_replica;
}

// What each worker holds it also gets the whole sum of gradients of.
bool has_whole_sums(const StrategySpec& strategy) {
  const StrategyType core = strategy.core();
  return core != StrategyType::kSharded && core != StrategyType::kExpert &&
         strategy.mesh.shard <= 1 && strategy.mesh.expert <= 1;
}

// `differ`: why the workers of one replica have nothing to compare.
void fix_comparison(Draft& draft, std::string_view differ, std::int64_t workers_of_replica,
                    const std::string& help =
                        "use replicas.compare_every: never, or several "
                        "replicas") {
  if (holders_of_part(draft, workers_of_replica) > 1) return;
  fix(draft, "replicas.compare_every", draft.spec.replicas.compare_every, Interval::never(), differ,
      help);
  if (!has_whole_sums(draft.spec.strategy)) return;
  fix(draft, "replicas.compare_gradients", draft.spec.replicas.compare_gradients, Interval::never(),
      differ, "leave it out, or use several replicas");
}

// How many workers hold the model together: all, unless somebody says. Of a mesh they are told.
void resolve_replica(Draft& draft, const std::string& field, std::int64_t& size,
                     std::string_view help) {
  if (draft.spec.strategy.type == StrategyType::kHybrid) return;
  const std::int64_t workers = draft.spec.workers.count;
  if (!draft.given(field) && !draft.derived.contains(field)) {
    size = workers;
    draft.derive(field, "workers.count");
  }
  if (workers % size == 0) return;
  draft.complain({field, "workers.count"},
                 fmt::format("workers.count {} is no multiple of {} {}",
                             draft.shown("workers.count"), field, draft.shown(field)),
                 fmt::format("{}: use {} workers", help, multiples_beside(workers, size)));
}

void check_chunks(Draft& draft) {
  StrategySpec& strategy = draft.spec.strategy;
  const bool interleaved = strategy.schedule == PipelineSchedule::kInterleaved;
  const bool v_shaped = strategy.schedule == PipelineSchedule::kZbV;
  constexpr std::string_view kChunks = "strategy.chunks_per_stage";
  if (!draft.given(kChunks) && !draft.derived.contains(kChunks)) {
    strategy.chunks_per_stage = interleaved || v_shaped ? 2 : 1;
    draft.derive("strategy.chunks_per_stage", "strategy.schedule");
  } else if (v_shaped && strategy.chunks_per_stage != 2) {
    draft.complain({"strategy.chunks_per_stage", "strategy.schedule"},
                   fmt::format("schedule zb_v has two chunks on a stage, not {}",
                               draft.shown("strategy.chunks_per_stage")),
                   "leave it out, or use strategy.schedule: interleaved");
  } else if (!interleaved && !v_shaped && strategy.chunks_per_stage > 1) {
    draft.complain(
        {"strategy.chunks_per_stage", "strategy.schedule"},
        fmt::format("schedule {} has one chunk on a stage, not {}",
                    draft.shown("strategy.schedule"), draft.shown("strategy.chunks_per_stage")),
        "use strategy.schedule: interleaved");
  }
  const auto chunks = static_cast<std::size_t>(strategy.stages * strategy.chunks_per_stage);
  if (strategy.blocks.empty() || strategy.blocks.size() == chunks) return;
  const std::string_view stages = axis_field(draft, "strategy.stages");
  draft.complain(
      {"strategy.blocks", stages},
      fmt::format("strategy.blocks has {} numbers for {} chunks ({} stages with {} each)",
                  strategy.blocks.size(), chunks, draft.shown(stages),
                  draft.shown("strategy.chunks_per_stage")),
      "one number for each chunk, or leave it out: blocks are dealt out by cost");
}

// Each chunk has a block at least.
void check_blocks(Draft& draft) {
  const StrategySpec& strategy = draft.spec.strategy;
  const auto blocks = block_count(draft.spec.model);
  const std::string_view stages = axis_field(draft, "strategy.stages");
  if (blocks && strategy.stages * strategy.chunks_per_stage > *blocks) {
    const std::int64_t most = *blocks / strategy.chunks_per_stage;
    draft.complain({stages, "strategy.chunks_per_stage", "strategy.type"},
                   fmt::format("the model has {} blocks for {} chunks ({} stages with {} each)",
                               *blocks, strategy.stages * strategy.chunks_per_stage,
                               draft.shown(stages), draft.shown("strategy.chunks_per_stage")),
                   fmt::format("use {} stages at most, or a deeper model", most));
  }
  const auto dealt = std::accumulate(strategy.blocks.begin(), strategy.blocks.end(), 0LL);
  const bool one_each = std::ssize(strategy.blocks) == strategy.stages * strategy.chunks_per_stage;
  if (!blocks || !one_each || dealt == *blocks) return;
  draft.complain(
      {"strategy.blocks"},
      fmt::format("strategy.blocks deals out {} blocks, the model has {}", dealt, *blocks),
      "leave it out: blocks are dealt out by cost");
}

void check_gradients(Draft& draft) {
  if (draft.spec.replicas.compare_gradients == Interval::never()) return;
  if (has_whole_sums(draft.spec.strategy)) return;
  refuse(draft, "replicas.compare_gradients",
         "deals the reduced gradients out to the workers that hold shards or experts, where they "
         "are not compared, however many replicas there are",
         "leave it out: what comes of them is compared (replicas.compare_every); or use "
         "strategy.type: data, context, pipeline or tensor");
}

// Who computes a slice for another would hold all of its gradients.
void fix_shards(Draft& draft) {
  const std::int64_t stage = draft.spec.strategy.zero_stage;
  if (stage < 2) return;
  const std::string backup =
      fmt::format("with zero_stage {} has nobody hold all gradients of a slice", stage);
  fix(draft, "stragglers.backup", draft.spec.stragglers.backup, false, backup,
      "leave it out, or use strategy.zero_stage: 1");
  if (stage < 3) return;
  fix_comparison(draft, "with zero_stage 3 has workers that hold different parts of the weights",
                 draft.spec.workers.count,
                 "use replicas.compare_every: never, strategy.zero_stage: 2, or several replicas");
}

}  // namespace

std::int64_t replicas(const Draft& draft) noexcept {
  const StrategySpec& strategy = draft.spec.strategy;
  if (strategy.type == StrategyType::kAuto) return 1;  // at least, as it may turn out
  return strategy.mesh.replicate * strategy.mesh.shard * strategy.mesh.expert;
}

namespace {

// What each axis along which the model is cut asks for. `has`: whether it is there.
void resolve_cuts(Draft& draft, const std::function<bool(StrategyType, std::int64_t)>& has) {
  StrategySpec& strategy = draft.spec.strategy;
  if (has(StrategyType::kPipeline, strategy.mesh.pipeline)) {
    fix_slices(draft, kStages);
    derive_stages(draft);
    resolve_replica(draft, "strategy.stages", strategy.stages, "each replica has all stages");
    fix_comparison(draft, "has workers that hold different blocks", strategy.stages);
    check_chunks(draft);
    check_blocks(draft);
    check_optimizer_first(draft);
    resolve_placement(draft);
  }
  if (has(StrategyType::kTensor, strategy.mesh.tensor)) {
    fix_slices(draft, kTensors);
    resolve_replica(draft, "strategy.tensor", strategy.tensor,
                    "each replica has all parts of the tensors");
    fix_comparison(draft, "has workers that hold different parts of tensors", strategy.tensor);
    check_tensor(draft);
  }
  if (has(StrategyType::kContext, strategy.mesh.context)) {
    fix_slices(draft, kSequences);
    resolve_replica(draft, "strategy.context", strategy.context,
                    "each replica has all positions of a sequence");
    resolve_context(draft);
  }
  if (has(StrategyType::kExpert, strategy.mesh.expert)) {
    fix_slices(draft, kExperts);
    resolve_replica(draft, "strategy.expert", strategy.expert, "each replica has all experts");
    fix_comparison(draft, "has workers that hold different experts", strategy.expert);
    check_experts(draft);
  }
}

void resolve_core(Draft& draft) {
  const StrategySpec& strategy = draft.spec.strategy;
  const StrategyType core = strategy.core();
  check_redundancy(draft);
  if (core == StrategyType::kData) return;
  fix_membership(draft);
  check_gradients(draft);
  if (core == StrategyType::kSharded) fix_shards(draft);
  resolve_cuts(draft,
               [&](StrategyType type, std::int64_t extent) { return core == type || extent > 1; });
}

}  // namespace

void resolve_strategy(Draft& draft) {
  const StrategyType type = draft.spec.strategy.type;
  if (type == StrategyType::kAuto) return;
  if (type == StrategyType::kHybrid && !resolve_mesh(draft)) return;
  resolve_core(draft);
  if (type != StrategyType::kHybrid) name_mesh(draft);
}

}  // namespace muster::job
