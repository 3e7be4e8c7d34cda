#include "muster/cli/plan_nearest.h"

#include <algorithm>
#include <limits>

#include "muster/plan/nearby_workers.h"

namespace muster::cli {
namespace {

using Plans = std::vector<std::shared_ptr<const JobPlan>>;  // on one number of workers

std::int32_t most_lanes(const JobPlan& plan) {
  std::int32_t most = 1;
  for (const plan::Candidate& candidate : plan.candidates)
    if (candidate.way) most = std::max(most, candidate.way->lanes);
  return most;
}

// Of `lanes` at most.
JobPlan with_lanes(JobPlan plan, std::int32_t lanes) {
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) {
    auto& way = plan.candidates[i].way;
    if (!way || way->lanes <= lanes) continue;
    way->lanes = lanes;
    plan.ways[i].changes.flags.push_back(
        {.flag = "the planner's", .field = "training.lanes", .value = std::to_string(lanes)});
  }
  plan.ranking = plan::rank_ways(plan.profile, plan.candidates, plan.hardware);
  return plan;
}

Plans with_fewer_lanes(const JobPlan& plan) {
  Plans plans = {std::make_shared<const JobPlan>(plan)};
  for (std::int32_t lanes = most_lanes(plan) / 2; lanes > 0; lanes /= 2)
    plans.push_back(std::make_shared<const JobPlan>(with_lanes(plan, lanes)));
  return plans;
}

std::optional<NearestWay> first_that_fits(const Plans& plans) {
  for (const auto& plan : plans)
    if (const plan::RankedWay* best = plan->best())
      return NearestWay{plan, static_cast<std::size_t>(best - plan->ranking.data())};
  for (const auto& plan : plans)
    if (!plan->ranking.empty() && plan->ranking.front().possible()) return NearestWay{plan, 0};
  return {};
}

std::uint64_t need_of(const std::optional<NearestWay>& nearest) {
  return nearest ? nearest->way().estimate->memory.total()
                 : std::numeric_limits<std::uint64_t>::max();
}

// Keeps the way that needs least.
void keep_least(const Plans& plans, std::optional<NearestWay>& least) {
  for (const auto& plan : plans)
    for (std::size_t place = 0; place < plan->ranking.size(); ++place) {
      const auto& estimate = plan->ranking[place].estimate;
      if (estimate && estimate->memory.total() < need_of(least)) least = NearestWay{plan, place};
    }
}

}  // namespace

const plan::RankedWay& NearestWay::way() const noexcept { return plan->ranking[place]; }

std::optional<NearestWay> nearest_way(const JobPlan& plan, const PlanOn& on) {
  std::optional<NearestWay> least;
  const auto look_at_all = [&](const JobPlan& one) {
    const Plans plans = with_fewer_lanes(one);
    keep_least(plans, least);
    return first_that_fits(plans);
  };
  if (auto found = look_at_all(plan)) return found;
  const auto slices = static_cast<std::int32_t>(plan.job.training.virtual_workers);
  for (const std::int32_t workers :
       plan::nearby_workers(static_cast<std::int32_t>(plan.job.workers.count), slices)) {
    const auto other = on(workers);
    if (!other) continue;
    if (auto found = look_at_all(*other)) return found;
  }
  return least;
}

}  // namespace muster::cli
