#include "muster/cli/auto_strategy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>

#include "muster/base/units.h"
#include "muster/job/mesh_axes.h"
#include "muster/observe/run_folder.h"
#include "muster/plan/timeline.h"

namespace muster::cli {
namespace {

constexpr const char* kOrigin = "strategy.type: auto";  // of the values, in resolved.yaml

job::FlagValue chosen(const std::string& field, const std::string& value) {
  return {.flag = kOrigin, .field = field, .value = value};
}

job::CheckedJob with(const PlanRequest& request, const job::Job& job, const WayChanges& changes) {
  job::LoadOptions options = request.options;
  apply(changes, options);
  return check_job(job.text, request.job, options);
}

bool is_given(const job::Job& job, const std::string& field) {
  const auto found = job.origins.find(field);
  return found != job.origins.end() && found->second.kind != job::Origin::Kind::kDefault &&
         found->second.kind != job::Origin::Kind::kDerived;
}

// Those that a choice of the planner may set.
std::vector<std::string> fields_of(const job::StrategySpec& strategy) {
  std::vector<std::string> fields = {"strategy.type"};
  const auto add = [&](std::initializer_list<std::string_view> more) {
    fields.insert(fields.end(), more.begin(), more.end());
  };
  const bool is_mesh = strategy.type == job::StrategyType::kHybrid;
  for (const job::MeshAxis& axis : job::kMeshAxes)
    if (is_mesh && strategy.mesh.*axis.extent > 1) add({axis.field});
  if (strategy.mesh.pipeline > 1) {
    if (!is_mesh) add({"strategy.stages"});
    add({"strategy.schedule", "strategy.chunks_per_stage", "strategy.blocks"});
  }
  if (strategy.core() == job::StrategyType::kSharded) add({"strategy.zero_stage"});
  if (strategy.mesh.tensor > 1) {
    if (!is_mesh) add({"strategy.tensor"});
    add({"strategy.sequence_parallel"});
  }
  if (strategy.mesh.context > 1) {
    if (!is_mesh) add({"strategy.context"});
    add({"strategy.attention"});
  }
  if (strategy.mesh.expert > 1 && !is_mesh) add({"strategy.expert"});
  return fields;
}

// What the run was begun with.
Result<WayChanges> stored_choice(const job::Job& job, const Path& root, Context& context) {
  MUSTER_ASSIGN(const auto folder, observe::RunFolder::open(context.files, root));
  MUSTER_ASSIGN(const job::Job before,
                job::load_job(context.files, folder.resolved_job(), {.fields = context.fields}));
  const auto values = nlohmann::json::parse(job::to_json(before));
  WayChanges changes{{}, {"strategy."}};
  std::vector<std::string> fields = fields_of(before.spec.strategy);
  if (!is_given(job, "training.recompute")) fields.emplace_back("training.recompute");
  for (const std::string& field : fields) {
    const auto& value = values.at(field).at("value");
    changes.flags.push_back(
        chosen(field, value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return changes;
}

WayChanges changes_of(const JobPlan& plan, const plan::RankedWay& way) {
  WayChanges changes = plan.ways[way.candidate].changes;
  std::vector<std::int32_t> blocks;
  for (const layout::BlockRange& range : way.estimate->partition) blocks.push_back(range.size());
  for (job::FlagValue& flag : changes.flags) flag.flag = kOrigin;
  if (!blocks.empty())  // the cut that was priced
    changes.flags.push_back(
        chosen("strategy.blocks", fmt::format("[{}]", fmt::join(blocks, ", "))));
  return changes;
}

std::string described(const JobWay& way) {
  return way.recompute.empty() ? way.spread
                               : fmt::format("{}, recompute {}", way.spread, way.recompute);
}

std::string why_so(const JobPlan& plan, const plan::RankedWay& way) {
  const bool guessed = plan.job.workers.count > 1 && plan.link_from.is_assumed();
  const std::string memory = format_bytes(way.estimate->memory.total());
  if (plan.profile.counted())
    return fmt::format("strategy.type auto: {}; {}; at least {} a worker, counted: {}",
                       described(plan.ways[way.candidate]), way.reason, memory,
                       plan.profile.not_measured);
  return fmt::format("strategy.type auto: {}; {}; {} a step and {} a worker predicted{}",
                     described(plan.ways[way.candidate]), way.reason,
                     plan::time_text(way.estimate->time.total()), memory,
                     guessed ? ", with an assumed link between workers" : "");
}

Error nothing_fits(const JobPlan& plan) {
  std::string reasons;
  std::set<std::string> told;
  for (const plan::RankedWay& way : plan.ranking) {
    const JobWay& one = plan.ways[way.candidate];
    const plan::Candidate& candidate = plan.candidates[way.candidate];
    if ((candidate.same_bits || candidate.last_resort) && told.insert(one.spread).second)
      reasons += fmt::format("\n  {}: {}", described(one), way.reason);
  }
  return fail(
      ErrorCode::kUnavailable,
      fmt::format("[plan] strategy.type auto: no way to train {} on {} workers:{}\nuse "
                  "other workers or a smaller training.micro_batch_size, or name a strategy",
                  plan.job.name, plan.job.workers.count, reasons));
}

Result<ChosenJob> choose_now(const PlanRequest& request, const job::Job& job, Context& context) {
  MUSTER_ASSIGN(const JobPlan plan, plan_job(request, job, context));
  const plan::RankedWay* best = plan.best();
  if (!best) return nothing_fits(plan);
  auto checked = with(request, job, changes_of(plan, *best));
  if (!checked.job) return fail(ErrorCode::kInternal, render(checked.errors));
  return ChosenJob{std::move(*checked.job), {why_so(plan, *best)}};
}

}  // namespace

Result<ChosenJob> choose_strategy(const PlanRequest& request, job::Job job,
                                  const std::optional<Path>& resumed, Context& context) {
  if (job.spec.strategy.type != job::StrategyType::kAuto) return ChosenJob{std::move(job), {}};
  if (!resumed) return choose_now(request, job, context);
  MUSTER_ASSIGN(const WayChanges stored, stored_choice(job, *resumed, context));
  auto checked = with(request, job, stored);
  if (!checked.job) return choose_now(request, job, context);
  return ChosenJob{
      std::move(*checked.job),
      {fmt::format("strategy.type auto: {}, as the run was begun", stored.flags.front().value)}};
}

}  // namespace muster::cli
