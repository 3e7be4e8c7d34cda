#include "muster/train/progress.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace muster::train {
namespace {

using nlohmann::json;

// A double that comes back with the same bits: JSON's shortest form does that for finite numbers.
std::optional<double> optional_number(const json& object, const char* key) {
  if (!object.contains(key)) return std::nullopt;
  return object.at(key).get<double>();
}

json to_json_of(const optim::LossScale& scale) {
  return {{"scale", scale.scale}, {"good_steps", scale.good_steps}, {"stuck", scale.stuck}};
}

optim::LossScale loss_scale_of(const json& object) {
  return {object.at("scale"), object.at("good_steps"), object.at("stuck")};
}

Progress read(const json& object) {
  Progress progress;
  progress.committed = Step{object.at("step").get<std::int64_t>()};
  const json& cursor = object.at("cursor");
  progress.cursor = {cursor.at("epoch"), cursor.at("position"), cursor.at("samples_seen")};
  progress.optimizer_steps = object.at("optimizer_steps");
  if (const auto value = optional_number(object, "best_value")) {
    progress.best = Best{*value, Step{object.at("best_step").get<std::int64_t>()},
                         object.value("best_metric", std::string())};
  }
  progress.evaluations_without_gain = object.at("evaluations_without_gain");
  progress.owes_evaluation = object.value("owes_evaluation", false);
  progress.first_loss = optional_number(object, "first_loss");
  if (object.contains("loss_scale")) progress.loss_scale = loss_scale_of(object.at("loss_scale"));
  return progress;
}

}  // namespace

bool forget_other_best(Progress& progress, const std::string& metric) {
  if (!progress.best || progress.best->metric.empty() || progress.best->metric == metric)
    return false;
  progress.best.reset();
  progress.evaluations_without_gain = 0;
  return true;
}

void note_evaluation(Progress& progress, const std::string& metric, bool higher_is_better,
                     double value) {
  const auto is_better = [&](double than) {
    return higher_is_better ? value > than : value < than;
  };
  const bool gains = std::isfinite(value) && (!progress.best || is_better(progress.best->value));
  if (gains) progress.best = Best{value, progress.committed, metric};
  progress.evaluations_without_gain = gains ? 0 : progress.evaluations_without_gain + 1;
}

std::string to_json(const Progress& progress) {
  json object = {{"step", to_int(progress.committed)},
                 {"cursor",
                  {{"epoch", progress.cursor.epoch},
                   {"position", progress.cursor.position},
                   {"samples_seen", progress.cursor.samples_seen}}},
                 {"optimizer_steps", progress.optimizer_steps},
                 {"evaluations_without_gain", progress.evaluations_without_gain}};
  if (progress.best) {
    object["best_value"] = progress.best->value;
    object["best_step"] = to_int(progress.best->step);
    object["best_metric"] = progress.best->metric;
  }
  if (progress.owes_evaluation) object["owes_evaluation"] = true;
  if (progress.first_loss) object["first_loss"] = *progress.first_loss;
  if (progress.loss_scale) object["loss_scale"] = to_json_of(*progress.loss_scale);
  return object.dump();
}

Result<Progress> progress_from_json(std::string_view text) {
  try {
    return read(json::parse(text));
  } catch (const json::exception& exception) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("[train/resume] the checkpoint's progress is not readable: {}",
                            exception.what()));
  }
}

}  // namespace muster::train
