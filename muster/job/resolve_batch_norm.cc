// What training.sync_batch_norm asks of the model, the strategy and the batch: batch norms, and
// that all slices of a step are computed at the same time, each in one pass.
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "muster/job/draft.h"
#include "muster/job/enum_names.h"

namespace muster::job {
namespace {

constexpr std::string_view kMeets = "training.sync_batch_norm";

// A model of the program's own has some or not: its worker says.
bool check_has_batch_norm(Draft& draft) {
  const ModelSpec& model = draft.spec.model;
  if (model.type == ModelType::kOwn) return true;
  if (model.type != ModelType::kResnet) {
    draft.complain(
        {kMeets, "model.type"},
        fmt::format("{}: a model of type {} has no batch norm", kMeets, model_word(draft.spec)),
        "remove it");
    return false;
  }
  if (model.resnet.norm == NormKind::kBatch) return true;
  draft.complain({kMeets, "model.norm"},
                 fmt::format("{}: with model.norm {} there is no batch norm", kMeets,
                             draft.shown("model.norm")),
                 "remove it, or use model.norm: batch");
  return false;
}

// Why slices could not meet; empty: they can.
std::string_view apart(StrategyType core) {
  switch (core) {
    case StrategyType::kPipeline:
      return "has all slices of a step meet at each batch norm, and stages compute them one behind "
             "the other";
    case StrategyType::kTensor:
      return "has all slices of a step meet at each batch norm, and workers that have tensors in "
             "parts compute them one after the other";
    case StrategyType::kContext:
      return "has all slices of a step meet at each batch norm, and workers that share sequences "
             "compute them one after the other";
    case StrategyType::kExpert:
      return "has all slices of a step meet at each batch norm, and workers that hold experts "
             "compute theirs one after the other";
    case StrategyType::kAuto:
    case StrategyType::kHybrid:  // is one of the others
    case StrategyType::kData:
    case StrategyType::kSharded:
      break;
  }
  return {};
}

void check_strategy(Draft& draft) {
  const StrategySpec& strategy = draft.spec.strategy;
  if (const auto why = apart(strategy.core()); !why.empty())
    return draft.refuse(kMeets, "strategy.type", why, "use strategy.type: data or sharded");
  if (strategy.core() == StrategyType::kSharded && strategy.zero_stage > 1)
    draft.refuse(kMeets, "strategy.zero_stage",
                 "has all slices of a step meet at each batch norm, and from stage 2 on they send "
                 "their gradients in turns",
                 "use strategy.zero_stage: 1");
}

}  // namespace

void resolve_batch_norm(Draft& draft) {
  if (!draft.spec.training.sync_batch_norm || !check_has_batch_norm(draft)) return;
  check_strategy(draft);
  draft.settle(kMeets, "stragglers.backup", draft.spec.stragglers.backup, false,
               "has all slices of a step meet at each batch norm, and one that is computed for "
               "another worker meets nobody",
               "leave it out");
  if (draft.spec.training.gradient_accumulation_steps > 1)
    draft.refuse(kMeets, "training.gradient_accumulation_steps",
                 "has a slice meet the others in one pass",
                 "use more training.virtual_workers, which makes slices smaller, and no "
                 "micro-batches");
}

}  // namespace muster::job
