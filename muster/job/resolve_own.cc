// What the program's own models, losses, metrics and data ask of a job.
#include <fmt/format.h>

#include <algorithm>

#include "muster/job/draft.h"
#include "muster/job/enum_names.h"

namespace muster::job {
namespace {

// The best checkpoint goes by a metric that is measured.
void resolve_metric(Draft& draft) {
  auto& evaluation = draft.spec.evaluation;
  if (evaluation.metric != MetricKind::kOwn) return;
  const std::string& name = evaluation.own_metric;
  for (const OwnComponent& component : draft.table->own())
    if (component.name == name) evaluation.own_is_higher = component.higher_is_better;
  if (std::ranges::find(evaluation.metrics, name) != evaluation.metrics.end()) return;
  evaluation.metrics.push_back(name);
  draft.derive("evaluation.metrics", "with evaluation.metric");
}

void check_twice(Draft& draft, std::string_view field, std::vector<std::string> names) {
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return;
  draft.complain({field}, fmt::format("{} names `{}` twice", field, *twice), "remove one of them");
}

void check_loss(Draft& draft) {
  const auto& training = draft.spec.training;
  if (draft.spec.classifies()) return;
  if (training.label_smoothing > 0) {
    draft.complain({"training.label_smoothing", "training.loss"},
                   fmt::format("training.label_smoothing is for training.loss {}; here it is {}",
                               kCrossEntropy, training.loss),
                   "remove it");
  }
  if (draft.spec.evaluation.metric == MetricKind::kAccuracy) {
    draft.complain({"evaluation.metric", "training.loss"},
                   fmt::format("evaluation.metric accuracy is for training.loss {}; here it is {}",
                               kCrossEntropy, training.loss),
                   "use loss, or a metric of the program's own");
  }
}

}  // namespace

void check_cut_outputs(Draft& draft) {
  const StrategySpec& strategy = draft.spec.strategy;
  const bool cut_outputs = strategy.tensor > 1 && draft.spec.model.type != ModelType::kMlp;
  if (!cut_outputs && strategy.context <= 1) return;
  const auto refuse = [&](std::string_view field, std::string_view what) {
    draft.complain({field, "strategy.type"},
                   fmt::format("strategy.type {} cuts the model's outputs over workers; {} {} may "
                               "need all of them",
                               draft.shown("strategy.type"), field, what),
                   "use strategy.type: data, sharded or pipeline");
  };
  if (!draft.spec.evaluation.metrics.empty())
    refuse("evaluation.metrics", draft.spec.evaluation.metrics.front());
  if (!draft.spec.classifies()) refuse("training.loss", draft.spec.training.loss);
}

void resolve_own(Draft& draft) {
  resolve_metric(draft);
  check_twice(draft, "evaluation.metrics", draft.spec.evaluation.metrics);
  check_loss(draft);
}

std::string model_word(const JobSpec& spec) {
  return spec.model.type == ModelType::kOwn ? spec.model.own
                                            : std::string(to_string(spec.model.type));
}

std::string data_word(const JobSpec& spec) {
  return spec.data.type == DataType::kOwn ? spec.data.own : std::string(to_string(spec.data.type));
}

}  // namespace muster::job
