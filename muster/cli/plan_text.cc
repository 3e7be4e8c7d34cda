// How a plan is shown: as a table and as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "muster/base/text_width.h"
#include "muster/base/units.h"
#include "muster/cli/plan_job.h"
#include "muster/job/enum_names.h"
#include "muster/job/mesh_axes.h"
#include "muster/job/placement.h"
#include "muster/observe/table_text.h"
#include "muster/plan/timeline.h"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;
using plan::RankedWay;

double rate(const JobPlan& plan, const RankedWay& way) {
  return static_cast<double>(plan.job.training.global_batch_size) /
         to_seconds(way.estimate->time.total());
}

std::vector<const RankedWay*> shown(const JobPlan& plan, bool all) {
  std::vector<const RankedWay*> rows;
  std::set<std::string> spreads;
  for (const RankedWay& way : plan.ranking) {
    const plan::Candidate& candidate = plan.candidates[way.candidate];
    const bool usual = candidate.same_bits || candidate.last_resort;
    if (all || (usual && spreads.insert(candidate.name).second)) rows.push_back(&way);
  }
  return rows;
}

using Cells = std::vector<std::string>;

// The micro-batch only where it differs from line to line.
Cells times_of(const JobPlan& plan, const RankedWay& way, bool all) {
  const JobWay& job = plan.ways[way.candidate];
  Cells cells = {job.spread, job.recompute.empty() ? "-" : job.recompute};
  if (all)
    cells.push_back(fmt::format("{}{}", job.micro_batch,
                                job.micro_batch == plan.job.training.micro_batch_size ? "" : "*"));
  if (!way.estimate) {
    cells.insert(cells.end(), 4, "-");
    return cells;
  }
  const bool timed = !plan.profile.counted();
  cells.push_back(timed ? plan::time_text(way.estimate->time.total()) : "-");
  cells.push_back(timed ? fmt::format("{:.4g}", rate(plan, way)) : "-");
  cells.push_back(format_bytes(way.estimate->memory.total()));
  cells.push_back(format_bytes(way.estimate->sent));
  return cells;
}

// Told by its number, as among the reasons: names and kinds together are wider than a terminal.
Cells memory_of(std::size_t number, const plan::MemoryUse& memory, bool offloads) {
  Cells cells = {fmt::format("{}.", number)};
  for (const std::uint64_t bytes : {memory.weights, memory.gradients, memory.optimizer,
                                    memory.activations, memory.buffers, memory.checkpoint})
    cells.push_back(format_bytes(bytes));
  if (offloads) cells.push_back(format_bytes(memory.disk));
  return cells;
}

std::string memory_text(const std::vector<const RankedWay*>& rows, const JobPlan& plan,
                        std::size_t width) {
  std::vector<Cells> memory = {
      {"", "weights", "gradients", "optimizer", "activations", "buffers", "checkpoint"}};
  const bool offloads = plan.job.optimizer.offload == job::OffloadKind::kDisk;
  if (offloads) memory.front().emplace_back("on disk");
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i]->estimate) memory.push_back(memory_of(i + 1, rows[i]->estimate->memory, offloads));
  return fmt::format("memory of a worker, besides libtorch's {}:\n",
                     format_bytes(plan.profile.process_bytes)) +
         observe::aligned(memory, 1, width);
}

// By stage, "stage 0: embedding, head; stage 1: layer0 … layer3".
std::string stages_text(const plan::Way& way, const layout::Partition& partition,
                        const std::vector<std::string>& names) {
  const auto stage_of = way.schedule == layout::PipelineKind::kZbV
                            ? layout::v_placement(way.stages)
                            : layout::round_robin_placement(way.stages, way.chunks_per_stage);
  std::vector<Cells> runs(static_cast<std::size_t>(way.stages));
  for (std::size_t chunk = 0; chunk < partition.size(); ++chunk) {
    const layout::BlockRange range = partition[chunk];
    const auto of_chunk = std::span(names).subspan(static_cast<std::size_t>(range.begin),
                                                   static_cast<std::size_t>(range.size()));
    runs.at(static_cast<std::size_t>(stage_of.at(chunk))).push_back(job::names_text(of_chunk));
  }
  std::string text;
  for (std::size_t stage = 0; stage < runs.size(); ++stage)
    text +=
        fmt::format("{}stage {}: {}", stage == 0 ? "" : "; ", stage, fmt::join(runs[stage], ", "));
  return text;
}

// Of the pipelines whose cut the job says.
std::string placement_text(const std::vector<const RankedWay*>& rows, const JobPlan& plan) {
  std::vector<std::string> names;
  names.reserve(plan.profile.blocks.size());
  for (const plan::BlockProfile& block : plan.profile.blocks) names.push_back(block.name);
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& way = plan.candidates[rows[i]->candidate].way;
    if (!rows[i]->estimate || !way || way->block_counts.empty()) continue;
    text +=
        fmt::format("{:>3}. {}\n", i + 1, stages_text(*way, rows[i]->estimate->partition, names));
  }
  return text.empty() ? text : "\nblocks on stages, as the job says:\n" + text;
}

std::string parameters_text(const plan::ModelProfile& profile) {
  const std::int64_t all = profile.parameters(), trained = profile.trained_parameters();
  std::string text = format_count(static_cast<double>(all));
  if (trained == all) return text;
  return fmt::format("{}, {} of them trained", text, format_count(static_cast<double>(trained)));
}

// Where the figures are of shapes alone.
std::string counted_text(const plan::ModelProfile& profile) {
  if (!profile.counted()) return {};
  return fmt::format(
      "counted, not measured: {}\n"
      "so memory is without activations, at least what is said, and times are not known\n",
      profile.not_measured);
}

std::string head(const JobPlan& plan) {
  const plan::Hardware& hardware = plan.hardware;
  const auto workers = plan.job.workers.count;
  return fmt::format(
      "{} on {} worker{}, {:g} core{}, {} memory a worker\n"
      "between workers: {}\n"
      "parameters: {}\n{}\n",
      plan.job.name, workers, workers == 1 ? "" : "s", hardware.cores,
      hardware.cores == 1 ? "" : "s", format_bytes(hardware.memory),
      link_text(hardware.link, plan.link_from), parameters_text(plan.profile),
      counted_text(plan.profile));
}

// What the words for a way set.
std::vector<std::pair<std::string, std::string>> settings_of(const JobPlan& plan,
                                                             const RankedWay& way) {
  const JobWay& job = plan.ways[way.candidate];
  std::vector<std::pair<std::string, std::string>> settings;
  settings.reserve(job.changes.flags.size() + 1);
  for (const job::FlagValue& flag : job.changes.flags)
    settings.emplace_back(flag.field, flag.value);
  // Beside another micro-batch the job's own number of them would contradict it.
  const auto& found = plan.candidates[way.candidate].way;
  const bool other_passes = job.micro_batch != plan.job.training.micro_batch_size;
  if (plan.says_accumulation && other_passes && found)
    settings.emplace_back("training.gradient_accumulation_steps", std::to_string(found->passes()));
  return settings;
}

std::vector<std::string> sets_of(const JobPlan& plan, const RankedWay& way) {
  std::vector<std::string> sets;
  for (const auto& [field, value] : settings_of(plan, way)) {
    const bool plain = value.find_first_of("[]' ") == std::string::npos;
    const std::string set = field + "=" + value;
    const char quote = set.find('"') == std::string::npos ? '"' : '\'';
    sets.push_back("--set " + (plain ? set : fmt::format("{0}{1}{0}", quote, set)));
  }
  return sets;
}

// A terminal too narrow for both gets the options below the text, in lines that a shell takes for
// one; none of them is broken.
std::string with_options(const std::string& text, const std::vector<std::string>& options,
                         std::size_t width) {
  constexpr std::string_view kGoesOn = " \\";
  constexpr std::string_view kNextLine = "\n  ";
  std::string line = fmt::format("{} {}", text, fmt::join(options, " "));
  if (width == 0 || display_width(line) <= width) return line;
  std::string lines = fitted(text, width);
  std::size_t taken = width;
  for (const std::string& option : options) {
    const std::size_t columns = 1 + display_width(option);
    const bool first = &option == &options.front();
    if (taken + columns + kGoesOn.size() > width) {
      lines.append(first ? "" : kGoesOn).append(kNextLine).append(option);
      taken = 1 + columns;
    } else {
      lines.append(" ").append(option);
      taken += columns;
    }
  }
  return lines;
}

// Where other bits would be faster than the best.
std::string hint(const JobPlan& plan, const RankedWay& best, std::size_t width) {
  if (plan.profile.counted()) return {};
  const RankedWay* faster = nullptr;
  for (const RankedWay& way : plan.ranking) {
    if (!way.possible() || plan.candidates[way.candidate].same_bits) continue;
    if (!faster || way.estimate->time.total() < faster->estimate->time.total()) faster = &way;
  }
  const double ratio =
      faster ? to_seconds(best.estimate->time.total()) / to_seconds(faster->estimate->time.total())
             : 1;
  if (ratio < 1 + plan::kNearly) return {};
  return with_options(fmt::format("with other bits, {:.2f} times as fast:", ratio),
                      sets_of(plan, *faster), width) +
         "\n";
}

std::string reasons(const std::vector<const RankedWay*>& rows, const JobPlan& plan) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i)
    text += fmt::format("{:>3}. {}: {}\n", i + 1, plan.candidates[rows[i]->candidate].name,
                        rows[i]->reason);
  return text;
}

// Meshes with both cut tensors and shared sequences are not among the ways.
bool prices_own(const JobPlan& plan) {
  if (plan.job.strategy.type != job::StrategyType::kHybrid) return true;
  const auto own = way_of(plan.job, {}, plan.hardware.cores);
  return own && std::ranges::any_of(plan.candidates, [&](const plan::Candidate& candidate) {
           return candidate.way && candidate.way->is_on_same_mesh(*own);
         });
}

Json memory_json(const plan::MemoryUse& memory) {
  return {{"weights", memory.weights},
          {"gradients", memory.gradients},
          {"optimizer", memory.optimizer},
          {"activations", memory.activations},
          {"buffers", memory.buffers},
          {"checkpoint", memory.checkpoint},
          {"process", memory.process},
          {"total", memory.total()},
          {"disk", memory.disk}};
}

Json way_json(const JobPlan& plan, const RankedWay& way) {
  const JobWay& job = plan.ways[way.candidate];
  Json json = {{"way", job.spread},
               {"micro_batch_size", job.micro_batch},
               {"possible", way.possible()},
               {"same_bits", plan.candidates[way.candidate].same_bits},
               {"reason", way.reason}};
  for (const auto& [field, value] : settings_of(plan, way)) json["set"][field] = value;
  if (!way.estimate) return json;
  const plan::Estimate& estimate = *way.estimate;
  if (!plan.profile.counted()) {
    json["step_s"] = to_seconds(estimate.time.total());
    json["samples_per_s"] = rate(plan, way);
    json["time"] = {{"computing_s", to_seconds(estimate.time.computing)},
                    {"waiting_s", to_seconds(estimate.time.waiting)},
                    {"communication_s", to_seconds(estimate.time.communication)},
                    {"update_s", to_seconds(estimate.time.update)}};
  }
  json["memory"] = memory_json(estimate.memory);
  json["bytes_on_wire"] = estimate.bytes_on_wire;
  json["sent_bytes"] = estimate.sent;
  for (const layout::BlockRange& blocks : estimate.partition)
    json["blocks"].push_back(blocks.size());
  return json;
}

Json hardware_json(const JobPlan& plan) {
  Json json = {{"cores", plan.hardware.cores},
               {"memory_bytes", plan.hardware.memory},
               {"latency_s", to_seconds(plan.hardware.link.latency)},
               {"latency_from", to_string(plan.link_from.latency)},
               {"bytes_per_second", plan.hardware.link.bytes_per_second},
               {"bandwidth_from", to_string(plan.link_from.bandwidth)}};
  if (!plan.link_from.failure.empty()) json["link_failure"] = plan.link_from.failure;
  return json;
}

// How to train in the nearest way, from the job as it is.
std::vector<std::string> nearest_options(const JobPlan& plan, const NearestWay& nearest) {
  std::vector<std::string> options = sets_of(*nearest.plan, nearest.way());
  const std::int64_t workers = nearest.plan->job.workers.count;
  if (workers != plan.job.workers.count)
    options.insert(options.begin(), fmt::format("--workers {}", workers));
  return options;
}

// Sums in fast mode depend on workers and lanes as well.
bool leaves_bits(const NearestWay& nearest) {
  return nearest.plan->candidates[nearest.way().candidate].same_bits &&
         nearest.plan->job.training.mode == job::TrainingMode::kOrdered;
}

Json nearest_json(const JobPlan& plan) {
  if (!plan.nearest) return {};
  const NearestWay& nearest = *plan.nearest;
  Json json = way_json(*nearest.plan, nearest.way());
  json["same_bits"] = leaves_bits(nearest);
  json["workers"] = nearest.plan->job.workers.count;
  json["memory_limit_bytes"] = nearest.plan->hardware.memory;
  json["options"] = fmt::format("{}", fmt::join(nearest_options(plan, nearest), " "));
  return json;
}

}  // namespace

std::string sets_text(const JobPlan& plan, const RankedWay& way) {
  return fmt::format("{}", fmt::join(sets_of(plan, way), " "));
}

std::string nearest_text(const JobPlan& plan, std::size_t width) {
  std::string none = "none of them fits in memory";
  if (!plan.nearest) return none;
  const NearestWay& nearest = *plan.nearest;
  const std::string need = (nearest.plan->profile.counted() ? "at least " : "") +
                           format_bytes(nearest.way().estimate->memory.total());
  const std::string limit = format_bytes(nearest.plan->hardware.memory);
  const auto options = nearest_options(plan, nearest);
  if (nearest.way().fits)
    return none + "\n" +
           with_options(fmt::format("the nearest that {} ({} a worker, which may take {}{}):",
                                    nearest.plan->profile.counted()
                                        ? "may, by what is counted without activations"
                                        : "does",
                                    need, limit, leaves_bits(nearest) ? "" : "; other bits"),
                        options, width);
  const std::uint64_t process = nearest.way().estimate->memory.process;
  none += process < nearest.plan->hardware.memory
              ? ", nor does any near them: on other workers, with fewer lanes or smaller "
                "micro-batches"
              : fmt::format(", nor can any: libtorch alone takes {} of a worker",
                            format_bytes(process));
  return fitted(none, width) + "\n" +
         with_options(
             fmt::format("what needs least ({} a worker, which may take {}):", need, limit),
             options, width);
}

namespace {

// Below the tables: what they leave unsaid.
std::string notes(const std::vector<const RankedWay*>& rows, const JobPlan& plan) {
  std::string text = placement_text(rows, plan);
  const bool other_bits = std::ranges::any_of(rows, [&](const RankedWay* way) {
    return plan.ways[way->candidate].micro_batch != plan.job.training.micro_batch_size;
  });
  if (other_bits) text += "* another micro-batch than the job's: other bits\n";
  if (!prices_own(plan))
    text += fmt::format("the job's own mesh {} is not priced\n", mesh_text(plan.job.strategy.mesh));
  return text;
}

}  // namespace

std::string plan_text(const JobPlan& plan, bool all, std::size_t width) {
  const auto rows = shown(plan, all);
  std::vector<Cells> times = {{"way", "recompute", "step", "samples/s", "memory", "sent/step"}};
  if (all) times.front().insert(times.front().begin() + 2, "micro-batch");
  for (const RankedWay* way : rows) times.push_back(times_of(plan, *way, all));
  const std::string text = fitted(head(plan), width) + observe::aligned(times, 2, width) + "\n" +
                           fitted(reasons(rows, plan), width) + "\n" +
                           memory_text(rows, plan, width) + fitted(notes(rows, plan), width) + "\n";
  const RankedWay* best = plan.best();
  if (!best) return text + nearest_text(plan, width) + "\n";
  return text + with_options("train so:", sets_of(plan, *best), width) + "\n" +
         hint(plan, *best, width);
}

std::string plan_json(const JobPlan& plan) {
  Json json = {{"job", plan.job.name},
               {"own_mesh_priced", prices_own(plan)},
               {"workers", plan.job.workers.count},
               {"parameters", plan.profile.parameters()},
               {"trained_parameters", plan.profile.trained_parameters()},
               {"counted", plan.profile.counted() ? Json(plan.profile.not_measured) : Json()},
               {"hardware", hardware_json(plan)},
               {"ranking", Json::array()}};
  for (const RankedWay& way : plan.ranking) json["ranking"].push_back(way_json(plan, way));
  const RankedWay* best = plan.best();
  json["best"] = best ? Json(best - plan.ranking.data()) : Json();
  json["nearest"] = nearest_json(plan);
  return json.dump();
}

}  // namespace muster::cli
