#pragma once
// Which way to train a job is best on this machine: a worker counts what the model needs and, where
// some way may fit, measures its blocks; the planner (muster/plan) prices every way that the job
// allows.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/cli/context.h"
#include "muster/cli/job_ways.h"
#include "muster/cli/plan_link.h"
#include "muster/job/load.h"
#include "muster/plan/ranking.h"

namespace muster::cli {

struct PlanRequest {
  Path job;
  job::LoadOptions options;  // as they would be to train it
  std::optional<std::uint64_t> memory =
      {};                                // that a worker may take; none: its share of what is free
  std::optional<Duration> latency = {};  // of a message between workers; none: cli/plan_link.h
  std::optional<double> bytes_per_second = {};  // between workers; none: the same
  bool other_hosts = false;                     // workers may be there, whatever the job says
  Path profile = {};  // what was measured: read from there, or written where there is none
};

struct JobPlan;

// A way of a plan for as many workers, or lanes, as the job could have instead of its own.
struct NearestWay {
  std::shared_ptr<const JobPlan> plan;
  std::size_t place = 0;  // in the plan's ranking

  const plan::RankedWay& way() const noexcept;
};

struct JobPlan {
  job::JobSpec job;  // as it is written
  plan::Hardware hardware;
  LinkOrigins link_from = {};  // what `hardware` has of the link
  plan::ModelProfile profile = {};
  std::vector<JobWay> ways = {};
  std::vector<plan::Candidate> candidates = {};  // one a way
  std::vector<plan::RankedWay> ranking = {};
  bool says_accumulation = false;          // the job has training.gradient_accumulation_steps
  std::optional<NearestWay> nearest = {};  // where nothing fits: cli/plan_nearest.h

  const plan::RankedWay* best() const noexcept { return plan::best_of(ranking, candidates); }
};

// `job`: what `request` loads to. Starts muster-worker, which takes some seconds. Where no way fits
// by what is counted, or no pass in the memory that there is, `profile` says so and nothing was
// run.
Result<JobPlan> plan_job(const PlanRequest& request, const job::Job& job, Context& context);

// A table, the best way first, for a terminal of `width` columns; 0: none. `all`: every
// combination, else the best of each spread that leaves the bits as they are.
std::string plan_text(const JobPlan& plan, bool all, std::size_t width = 0);
// How to train in that way: "--set strategy.type=sharded".
std::string sets_text(const JobPlan& plan, const plan::RankedWay& way);
// Where nothing fits: that, and what would, or what needs least.
std::string nearest_text(const JobPlan& plan, std::size_t width = 0);
std::string plan_json(const JobPlan& plan);

}  // namespace muster::cli
