#include "muster/cli/pipeline_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/base/text_width.h"
#include "muster/base/units.h"
#include "muster/plan/timeline.h"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;
using plan::PipelineAnswer;
using plan::PipelineSimulation;

std::int32_t turns(const PipelineSimulation& simulation) {
  return simulation.schedule.chunks() / simulation.schedule.stages();
}

// In micro-batches of a whole stage: a stage with two chunks holds a half for each.
double held(const PipelineSimulation& simulation) {
  return static_cast<double>(simulation.peak_activations()) / turns(simulation);
}

std::string row(const PipelineSimulation& simulation) {
  return fmt::format("{:<11} {:>6}  {:>9} {:>5.1f} %  {:>10} {:>5.1f} %  {:>5.4g}  {:>9}\n",
                     to_string(simulation.schedule.kind), turns(simulation),
                     plan::time_text(simulation.makespan), 100 * simulation.bubble(),
                     plan::time_text(simulation.period), 100 * simulation.bubble_without_barrier(),
                     held(simulation), format_bytes(simulation.peak_bytes()));
}

Json stage_json(const PipelineAnswer& answer, std::size_t stage) {
  const auto& summary = answer.simulation.stages[stage];
  Json json = {{"busy_s", to_seconds(summary.busy)}, {"begin_s", to_seconds(summary.begin)},
               {"end_s", to_seconds(summary.end)},   {"peak_activations", summary.peak_activations},
               {"peak_bytes", summary.peak_bytes},   {"sent_messages", summary.sent_messages},
               {"sent_bytes", summary.sent_bytes}};
  for (std::size_t chunk = 0; chunk < answer.partition.size(); ++chunk) {
    if (static_cast<std::size_t>(answer.simulation.schedule.stage_of[chunk]) != stage) continue;
    json["blocks"].push_back({answer.partition[chunk].begin, answer.partition[chunk].end});
  }
  return json;
}

Json answer_json(layout::PipelineKind kind, const Result<PipelineAnswer>& answer) {
  Json json = {{"schedule", to_string(kind)}};
  if (!answer) {
    json["why_not"] = answer.error().message;
    return json;
  }
  const PipelineSimulation& simulation = answer->simulation;
  json["chunks_per_stage"] = turns(simulation);
  json["step_s"] = to_seconds(simulation.makespan);
  json["bubble"] = simulation.bubble();
  json["step_without_barrier_s"] = to_seconds(simulation.period);
  json["bubble_without_barrier"] = simulation.bubble_without_barrier();
  json["peak_micro_batches"] = held(simulation);
  json["peak_bytes"] = simulation.peak_bytes();
  for (std::size_t stage = 0; stage < simulation.stages.size(); ++stage)
    json["stages"].push_back(stage_json(*answer, stage));
  return json;
}

}  // namespace

std::string comparison_text(const PipelineAnswers& answers, std::size_t width) {
  std::string text =
      fmt::format("{:<11} {:>6}  {:>9} {:>7}  {:>10} {:>7}  {:>5}  {:>9}\n", "schedule", "chunks",
                  "step", "bubble", "no barrier", "bubble", "holds", "memory");
  for (const auto& [kind, answer] : answers.by_kind) {
    if (answer) {
      text += row(answer->simulation);
      continue;
    }
    const std::string begin = fmt::format("{:<11} {:>6}  ", to_string(kind), "-");
    const std::string& why = answer.error().message;
    text += begin + (width > 0 ? wrapped_behind(why, width, begin.size()) : why) + "\n";
  }
  return text;
}

std::string partition_text(const PipelineAnswer& answer) {
  if (answer.partition.empty()) return {};
  std::string text;
  const auto& schedule = answer.simulation.schedule;
  for (std::int32_t stage = 0; stage < schedule.stages(); ++stage) {
    std::string blocks;
    for (const layout::Chunk chunk : schedule.chunks_of(layout::Stage{stage})) {
      const layout::BlockRange& range = answer.partition[static_cast<std::size_t>(chunk)];
      blocks += fmt::format("{}{}", blocks.empty() ? "" : ", ", range.begin);
      if (range.size() > 1) blocks += fmt::format("-{}", range.end - 1);
    }
    const Duration busy = answer.simulation.stages[static_cast<std::size_t>(stage)].busy;
    text += fmt::format("stage {}: blocks {}; {} a micro-batch\n", stage, blocks,
                        plan::time_text(busy / schedule.micro_batches));
  }
  return text;
}

Json comparison_json(const PipelineAnswers& answers) {
  Json schedules = Json::array();
  for (const auto& [kind, answer] : answers.by_kind) schedules.push_back(answer_json(kind, answer));
  return {{"stages", answers.question.stages},
          {"micro_batches", answers.question.micro_batches},
          {"schedules", std::move(schedules)}};
}

}  // namespace muster::cli
