#include "muster/cli/plan_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "muster/app/launch/launch.h"
#include "muster/cli/ask_worker.h"
#include "muster/cli/machine.h"
#include "muster/cli/plan_nearest.h"
#include "muster/cli/plan_profile.h"

namespace muster::cli {
namespace {

constexpr std::chrono::minutes kProfileLimit{3};

plan::Hardware hardware_for(const PlanRequest& request, const job::JobSpec& job,
                            const PlannedLink& link, Context& context) {
  plan::Hardware hardware;
  hardware.cores = std::max(1.0, context.machine.cores());
  hardware.link = link.cost;
  hardware.wire = link.wire;
  const auto local = static_cast<std::uint64_t>(std::max<std::int64_t>(1, job.workers.processes()));
  hardware.memory = request.memory.value_or(context.machine.memory().available / local);
  return hardware;
}

// Of workers of which each has its share of the cores, and a lane for each of these.
std::int32_t passes_at_once(const job::JobSpec& job, double cores) {
  const double most = std::max(1.0, cores);
  if (!job.training.lanes) return static_cast<std::int32_t>(most);
  const auto lanes = static_cast<double>(*job.training.lanes * job.workers.processes());
  return static_cast<std::int32_t>(std::clamp(lanes, 1.0, most));
}

// From one start of a worker. What it counts without running the model `may_fit` is told, which
// says whether the model is measured: in no more memory than there is, and than a worker may take.
Result<plan::ModelProfile> ask_for_profile(
    const PlanRequest& request, const job::Job& job,
    const std::function<bool(plan::ModelProfile counted)>& may_fit, Context& context) {
  MUSTER_ASSIGN(const Path worker, worker_program(context));
  const std::uint64_t available = context.machine.memory().available;
  const std::uint64_t most = std::min(request.memory.value_or(available), available);
  const std::vector<std::string> more = {
      "--wait",
      "--memory",
      std::to_string(most),
      "--at-once",
      std::to_string(passes_at_once(job.spec, context.machine.cores())),
      "--micro-batches",
      fmt::format("{}", fmt::join(micro_batches_of(job.spec), ","))};
  const GoesOn goes_on = [&](const std::string& line) -> std::optional<bool> {
    auto counted = plan::profile_from_json(line);
    if (!counted) return std::nullopt;
    return may_fit(*std::move(counted));
  };
  MUSTER_ASSIGN(const std::string answer,
                ask_worker(worker, "--profile", job, more, kProfileLimit, goes_on, context));
  MUSTER_ASSIGN(plan::ModelProfile profile, plan::profile_from_json(answer));
  if (!request.profile.empty() && !profile.counted())
    MUSTER_TRY(write_profile(context.files, request.profile, job, profile));
  return profile;
}

// Errors as one line: what is wrong, without the place in a file that does not say it.
Error refusal(const std::vector<job::Diagnostic>& errors) {
  const job::Diagnostic& first = errors.front();
  return fail(ErrorCode::kInvalid, first.help.empty()
                                       ? first.message
                                       : fmt::format("{}: {}", first.message, first.help));
}

Result<plan::Way> resolve(const PlanRequest& request, const std::string& text, const JobWay& way,
                          const std::vector<std::string>& blocks, double cores) {
  job::LoadOptions options = request.options;
  apply(way.changes, options);
  const auto checked = check_job(text, request.job, options);
  if (!checked.job) return refusal(checked.errors);
  return way_of(checked.job->spec, blocks, cores);
}

// All ways of `plan.job` on `plan.hardware`.
void rank_all(const PlanRequest& request, const std::string& text, JobPlan& plan) {
  std::vector<std::string> blocks;
  blocks.reserve(plan.profile.blocks.size());
  for (const plan::BlockProfile& block : plan.profile.blocks) blocks.push_back(block.name);
  for (JobWay& way : ways_of(plan.job, blocks)) {
    Result<plan::Way> found = resolve(request, text, way, blocks, plan.hardware.cores);
    if (!found && way.product) continue;
    const bool same_passes = way.micro_batch == plan.job.training.micro_batch_size;
    plan.candidates.push_back({.name = way.spread,
                               .way = std::move(found),
                               .same_bits = same_passes && way.rounds_alike,
                               .plain = way.spread == "data",
                               .last_resort = same_passes && !way.rounds_alike});
    plan.ways.push_back(std::move(way));
  }
  plan.ranking = plan::rank_ways(plan.profile, plan.candidates, plan.hardware);
}

// As `plan`, on so many workers.
std::optional<JobPlan> plan_on(std::int32_t workers, PlanRequest request, const job::Job& job,
                               const JobPlan& plan, Context& context) {
  request.options.flags.push_back({"--workers", "workers.count", std::to_string(workers)});
  job::LoadOptions any = request.options;  // the job's own strategy may be none for so many
  apply({{{.flag = "the planner's", .field = "strategy.type", .value = "data"}}, {"strategy."}},
        any);
  const auto checked = check_job(job.text, request.job, any);
  if (!checked.job) return {};
  const PlannedLink link{plan.hardware.link, plan.hardware.wire, plan.link_from};
  JobPlan other{.job = checked.job->spec,
                .hardware = hardware_for(request, checked.job->spec, link, context),
                .link_from = link.from,
                .profile = plan.profile,
                .says_accumulation = plan.says_accumulation};
  rank_all(request, job.text, other);
  return other;
}

bool is_said(const job::Job& job, const std::string& field) {
  const auto found = job.origins.find(field);
  return found != job.origins.end() && found->second.kind > job::Origin::Kind::kDerived;
}

}  // namespace

Result<JobPlan> plan_job(const PlanRequest& request, const job::Job& job, Context& context) {
  MUSTER_TRY(app::check_startable(context.files, job));
  const PlannedLink link = link_for(request, job.spec, context);
  JobPlan plan{.job = job.spec,
               .hardware = hardware_for(request, job.spec, link, context),
               .link_from = link.from,
               .says_accumulation = is_said(job, "training.gradient_accumulation_steps")};
  if (!request.profile.empty() && context.files.exists(request.profile)) {
    MUSTER_ASSIGN(plan.profile, read_profile(context.files, request.profile, job));
    rank_all(request, job.text, plan);
  } else {
    const auto may_fit = [&](plan::ModelProfile counted) {
      plan.profile = std::move(counted);
      rank_all(request, job.text, plan);
      return std::ranges::any_of(plan.ranking, &plan::RankedWay::possible);
    };
    MUSTER_ASSIGN(plan.profile, ask_for_profile(request, job, may_fit, context));
    plan.ranking = plan::rank_ways(plan.profile, plan.candidates, plan.hardware);
  }
  if (plan.best() != nullptr) return plan;
  plan.nearest = nearest_way(
      plan, [&](std::int32_t workers) { return plan_on(workers, request, job, plan, context); });
  return plan;
}

}  // namespace muster::cli
