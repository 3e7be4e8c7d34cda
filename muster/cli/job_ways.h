#pragma once
// The ways in which a job could be trained: what each would change of it, and whether the job
// allows that. Another strategy is another line in job_spreads.cc.

#include <string>
#include <vector>

#include "muster/base/result.h"
#include "muster/job/load.h"
#include "muster/plan/ranking.h"

namespace muster::cli {

// What a way sets; what the job says of these sections and fields otherwise does not count.
struct WayChanges {
  std::vector<job::FlagValue> flags;
  std::vector<std::string> flags_only;
};
void apply(const WayChanges& changes, job::LoadOptions& options);

struct JobWay {
  std::string spread;  // "data", "1f1b, 2 stages": what it is called without the next two
  std::int64_t micro_batch = 1;
  std::string recompute;     // value of training.recompute: "[layer*]"; empty: the job's
  bool rounds_alike = true;  // sums are made in the order of the job as it is written
  bool product = false;      // of strategies: not worth a word where the job does not allow it
  WayChanges changes;
};

// The samples of a pass that are worth trying: the job's, and a slice in one, two or four.
std::vector<std::int64_t> micro_batches_of(const job::JobSpec& job);

// `job`: as it is written. `blocks`: the model's, by name.
std::vector<JobWay> ways_of(const job::JobSpec& job, const std::vector<std::string>& blocks);

// `job`: with a way's changes. `cores`: for all workers of this host. kInvalid where the job places
// blocks that the model has not.
Result<plan::Way> way_of(const job::JobSpec& job, const std::vector<std::string>& blocks,
                         double cores);

}  // namespace muster::cli
