#include "muster/cli/run_json.h"

#include <nlohmann/json.hpp>

#include "muster/base/units.h"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Json to_json(const observe::RunInfo& run) {
  const auto& outline = run.outline;
  const auto best = observe::best_evaluation(outline);
  const auto loss =
      outline.last_step ? outline.last_step->find(observe::metric::kTrainLoss) : std::nullopt;
  return {{"job", run.name.job},
          {"id", run.name.id},
          {"folder", run.root.native()},
          {"began", run.name.began},
          {"state", to_string(run.state)},
          {"reason", run.reason},
          {"step", to_int(last_step(outline))},
          {"total_steps", outline.started ? Json(outline.started->total_steps) : Json()},
          {"workers", outline.started ? Json(outline.started->workers) : Json()},
          {"train/loss", loss ? Json(*loss) : Json()},
          {"best", best ? Json{{best->name, best->value}} : Json()},
          {"took_s", to_seconds(outline.took)}};
}

}  // namespace muster::cli
