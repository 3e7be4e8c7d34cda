// strategy.mesh: the workers as a grid, and which products of axes there are.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "muster/job/draft.h"
#include "muster/job/mesh_axes.h"

namespace muster::job {
namespace {

constexpr std::int64_t kRest = -1;

void complain_of_mesh(Draft& draft, const std::string& what, std::string help) {
  draft.complain({"strategy.mesh.tensor", "strategy.mesh.context", "strategy.mesh.expert",
                  "strategy.mesh.pipeline", "strategy.mesh.shard", "strategy.mesh.replicate",
                  "strategy.type", "workers.count"},
                 fmt::format("strategy.mesh {}: {}", mesh_text(draft.spec.strategy.mesh), what),
                 std::move(help));
}

bool any_given(const Draft& draft) {
  return std::ranges::any_of(kMeshAxes,
                             [&](const MeshAxis& axis) { return draft.given(axis.field); });
}

// Whether each extent is one.
bool check_extents(Draft& draft) {
  std::vector<std::string_view> rests;
  for (const MeshAxis& axis : kMeshAxes) {
    if (draft.faulty.contains(axis.field)) return false;
    const std::int64_t extent = draft.spec.strategy.mesh.*axis.extent;
    if (extent == kRest) rests.push_back(axis.name);
    if (extent != 0) continue;
    draft.complain({axis.field}, fmt::format("{} is {}", axis.field, draft.shown(axis.field)),
                   "expected 1 or more, or -1 for the rest of the workers");
    return false;
  }
  if (rests.size() <= 1) return true;
  complain_of_mesh(draft, fmt::format("{} are -1", fmt::join(rests, " and ")),
                   "one axis can be the rest of the workers");
  return false;
}

std::int64_t named_workers(const MeshSpec& mesh) {
  std::int64_t product = 1;
  for (const MeshAxis& axis : kMeshAxes)
    if (mesh.*axis.extent != kRest && product <= INT32_MAX) product *= mesh.*axis.extent;
  return product;
}

// Whether the mesh is of just the workers that there are; fills in the rest.
bool fill(Draft& draft) {
  MeshSpec& mesh = draft.spec.strategy.mesh;
  const std::int64_t workers = draft.spec.workers.count, named = named_workers(mesh);
  const auto* rest = std::ranges::find_if(
      kMeshAxes, [&](const MeshAxis& axis) { return mesh.*axis.extent == kRest; });
  const bool fits = rest == kMeshAxes.end() ? named == workers : workers % named == 0;
  if (fits) {
    if (rest != kMeshAxes.end()) mesh.*rest->extent = workers / named;
    return true;
  }
  const std::string shown = draft.shown("workers.count");
  if (rest != kMeshAxes.end())
    complain_of_mesh(draft, fmt::format("workers.count {} is no multiple of {}", shown, named),
                     fmt::format("use {} workers", multiples_beside(workers, named)));
  else if (workers % named == 0 && mesh.replicate == 1)
    complain_of_mesh(draft, fmt::format("is for {} workers; workers.count is {}", named, shown),
                     "add replicate: -1, which fills them with replicas");
  else
    complain_of_mesh(draft, fmt::format("is for {} workers; workers.count is {}", named, shown),
                     fmt::format("use {} workers, or -1 for the axis that takes the rest", named));
  return false;
}

// Stages, parts of tensors and shared sequences combine, and each with shards and replicas. Experts
// do with all but shared sequences: the workers of that axis could be replicas.
bool check_experts_and_sequences(Draft& draft) {
  const MeshSpec& mesh = draft.spec.strategy.mesh;
  if (mesh.expert == 1 || mesh.context == 1) return true;
  MeshSpec nearest = mesh;
  nearest.replicate *= mesh.context;
  nearest.context = 1;
  complain_of_mesh(
      draft,
      "expert and context do not combine: which tokens an expert takes follows from all positions",
      fmt::format("use experts with replicas or shards, as in {}", mesh_text(nearest)));
  return false;
}

// Why gradients and weights are not shared out in this mesh; empty: they are.
std::string_view hindrance(const MeshSpec& mesh) {
  if (mesh.pipeline > 1)
    return "the stages of a pipeline find gradients in the order of its schedule, and a stage that "
           "waited for the owners of their shards would hold it up";
  if (mesh.expert > 1)
    return "an expert's gradients are found by the worker that has it, for the slices of all";
  if (mesh.shard == 1) return "no workers share them out without an axis `shard`";
  return {};
}

// With replicas in the place of what is in the way; all in one where there are no shards.
MeshSpec nearest_of_shards(const MeshSpec& mesh) {
  MeshSpec nearest;
  nearest.context = mesh.context;
  nearest.tensor = mesh.tensor;
  const std::int64_t others = mesh.replicate * mesh.pipeline * mesh.expert * mesh.shard;
  nearest.shard = mesh.shard > 1 ? mesh.shard : others;
  nearest.replicate = others / nearest.shard;
  return nearest;
}

void check_shards(Draft& draft) {
  const StrategySpec& strategy = draft.spec.strategy;
  const std::string_view why = hindrance(strategy.mesh);
  if (strategy.zero_stage == 1 || why.empty()) return;
  const MeshSpec nearest = nearest_of_shards(strategy.mesh);
  std::string help =
      "use strategy.zero_stage: 1, with which workers share out the optimizer's state of what they "
      "hold";
  if (nearest.shard > 1) help += ", or as in " + mesh_text(nearest);
  draft.complain({"strategy.zero_stage", "strategy.type"},
                 fmt::format("strategy.zero_stage {} does not go with the mesh {}: {}",
                             draft.shown("strategy.zero_stage"), mesh_text(strategy.mesh), why),
                 std::move(help));
}

// What is said of an axis that the mesh has not.
void check_unused(Draft& draft) {
  const StrategySpec& strategy = draft.spec.strategy;
  const StrategySpec plain;
  const auto check = [&](std::string_view field, bool said, std::string_view axis,
                         std::int64_t extent) {
    if (!said || extent > 1 || !draft.given(field)) return;
    draft.complain({field},
                   fmt::format("{} is {}, and strategy.mesh has no axis `{}`", field,
                               draft.shown(field), axis),
                   fmt::format("remove it, or add {}: 2 or more", axis));
  };
  const std::int64_t stages = strategy.mesh.pipeline;
  check("strategy.schedule", strategy.schedule != plain.schedule, "pipeline", stages);
  check("strategy.chunks_per_stage", strategy.chunks_per_stage > 1, "pipeline", stages);
  check("strategy.blocks", !strategy.blocks.empty(), "pipeline", stages);
  check("strategy.placement", !strategy.placement.empty(), "pipeline", stages);
  check("strategy.optimizer_first", strategy.optimizer_first, "pipeline", stages);
  check("strategy.sequence_parallel", strategy.sequence_parallel, "tensor", strategy.mesh.tensor);
}

}  // namespace

void name_hybrid(Draft& draft) {
  if (!any_given(draft) || draft.given("strategy.type")) return;
  draft.spec.strategy.type = StrategyType::kHybrid;
  draft.derive("strategy.type", "strategy.mesh");
}

bool resolve_mesh(Draft& draft) {
  if (!any_given(draft)) {
    draft.complain({"strategy.type"}, "strategy.type hybrid needs a strategy.mesh",
                   "for example strategy: {mesh: {replicate: -1, shard: 2}}");
    return false;
  }
  if (!check_extents(draft) || !fill(draft) || !check_experts_and_sequences(draft)) return false;
  check_shards(draft);
  check_unused(draft);
  StrategySpec& strategy = draft.spec.strategy;
  strategy.stages = strategy.mesh.pipeline;
  strategy.tensor = strategy.mesh.tensor;
  strategy.context = strategy.mesh.context;
  strategy.expert = strategy.mesh.expert;
  return true;
}

void name_mesh(Draft& draft) {
  StrategySpec& strategy = draft.spec.strategy;
  const std::int64_t workers = draft.spec.workers.count;
  MeshSpec& mesh = strategy.mesh = {};
  mesh.pipeline = strategy.type == StrategyType::kPipeline ? strategy.stages : 1;
  mesh.tensor = strategy.type == StrategyType::kTensor ? strategy.tensor : 1;
  mesh.context = strategy.type == StrategyType::kContext ? strategy.context : 1;
  mesh.expert = strategy.type == StrategyType::kExpert ? strategy.expert : 1;
  mesh.shard = strategy.type == StrategyType::kSharded ? workers : 1;
  mesh.replicate = workers / named_workers(mesh);
}

std::string_view axis_field(const Draft& draft, std::string_view field) {
  if (draft.spec.strategy.type != StrategyType::kHybrid) return field;
  if (field == "strategy.stages") return "strategy.mesh.pipeline";
  for (const MeshAxis& axis : kMeshAxes)
    if (field.substr(field.find('.') + 1) == axis.name) return axis.field;
  return field;
}

}  // namespace muster::job
