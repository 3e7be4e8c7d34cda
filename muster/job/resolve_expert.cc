// What strategy.type expert asks of the model and the batch: experts that can be dealt out, and as
// many slices for each worker.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "muster/job/draft.h"
#include "muster/job/enum_names.h"

namespace muster::job {
namespace {

constexpr std::string_view kWithoutDealing = "use strategy.type: data or sharded";

std::string_view holders_field(const Draft& draft) { return axis_field(draft, "strategy.expert"); }

bool check_has_experts(Draft& draft) {
  if (draft.spec.model.type == ModelType::kMoe) return true;
  draft.complain({"strategy.type", "model.type"},
                 fmt::format("strategy.type {} deals out experts; a model of type {} has none",
                             draft.shown("strategy.type"), model_word(draft.spec)),
                 fmt::format("{}, or model.type: moe", kWithoutDealing));
  return false;
}

// That have the same slices: all stages, with all parts of their tensors.
std::int64_t workers_of_slice(const Draft& draft) {
  const MeshSpec& mesh = draft.spec.strategy.mesh;
  return mesh.pipeline * mesh.tensor;
}

// " / strategy.mesh.tensor 2", for each axis along which workers have the same slices.
std::string divided_by_those(const Draft& draft) {
  const MeshSpec& mesh = draft.spec.strategy.mesh;
  std::string divided;
  if (mesh.pipeline > 1)
    divided += " / strategy.mesh.pipeline " + draft.shown("strategy.mesh.pipeline");
  if (mesh.tensor > 1) divided += " / strategy.mesh.tensor " + draft.shown("strategy.mesh.tensor");
  return divided;
}

// ", or strategy.expert: 2, whose other workers are replicas"; empty where only one worker fits.
std::string or_fewer_holders(const Draft& draft) {
  const std::int64_t workers = draft.spec.workers.count / workers_of_slice(draft);
  const std::int64_t experts = draft.spec.model.moe.num_experts;
  std::int64_t fewer = draft.spec.strategy.expert - 1;
  while (fewer > 1 && (workers % fewer != 0 || experts % fewer != 0)) --fewer;
  if (fewer <= 1) return {};
  return fmt::format(", or {}: {}, whose other workers are replicas", holders_field(draft), fewer);
}

void check_dealt_experts(Draft& draft) {
  const std::int64_t experts = draft.spec.model.moe.num_experts;
  const std::int64_t workers = draft.spec.strategy.expert;
  if (experts % workers == 0) return;
  const std::string_view holders = holders_field(draft);
  draft.complain({holders, "model.num_experts", "strategy.type"},
                 fmt::format("model.num_experts {} is no multiple of {} {}: each worker holds as "
                             "many experts",
                             draft.shown("model.num_experts"), holders, draft.shown(holders)),
                 fmt::format("use model.num_experts: {}{}", multiples_beside(experts, workers),
                             or_fewer_holders(draft)));
}

// Workers meet in every pass, so each has as many; those that have the same slices, together.
void check_passes(Draft& draft) {
  const std::int64_t slices = draft.spec.training.virtual_workers;
  const std::int64_t workers = draft.spec.workers.count / workers_of_slice(draft);
  if (slices % workers != 0)
    draft.complain(
        {"training.virtual_workers", "workers.count", "strategy.type"},
        fmt::format("strategy.type expert: training.virtual_workers {} is no multiple of "
                    "workers.count {}{}: each worker computes as many slices",
                    draft.shown("training.virtual_workers"), draft.shown("workers.count"),
                    divided_by_those(draft)),
        fmt::format("use training.virtual_workers: {}", multiples_beside(slices, workers)));
  if (draft.spec.training.gradient_accumulation_steps > 1)
    draft.complain(
        {"training.gradient_accumulation_steps", "training.micro_batch_size", "strategy.type"},
        fmt::format("strategy.type expert has each worker compute a slice in one pass; "
                    "training.gradient_accumulation_steps is {}",
                    draft.shown("training.gradient_accumulation_steps")),
        "use more training.virtual_workers, which makes slices smaller");
}

}  // namespace

void check_experts(Draft& draft) {
  if (!check_has_experts(draft) || draft.spec.strategy.expert == 1) return;
  check_dealt_experts(draft);
  check_passes(draft);
  if (draft.spec.lora.rank > 0)
    draft.complain({"lora.rank", "strategy.type"},
                   fmt::format("strategy.type expert does not deal out experts with adapters; "
                               "lora.rank is {}",
                               draft.shown("lora.rank")),
                   std::string(kWithoutDealing));
}

}  // namespace muster::job
