#include "muster/cli/job_ways.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "muster/base/glob.h"
#include "muster/base/round_up.h"
#include "muster/cli/job_spreads.h"
#include "muster/job/enum_names.h"
#include "muster/job/placement.h"
#include "muster/layout/pipeline/schedule.h"

namespace muster::cli {
namespace {

job::FlagValue flag(const std::string& field, const std::string& value) {
  return {.flag = "the planner's", .field = field, .value = value};
}

// All blocks but the first and the last, whose backward comes last and first: as one pattern where
// there is one for just these.
std::string inner_blocks(const std::vector<std::string>& blocks) {
  if (blocks.size() < 3) return {};
  const std::vector<std::string> inner(blocks.begin() + 1, blocks.end() - 1);
  std::string prefix = inner.front();
  for (const std::string& name : inner) {
    const auto [end, unused] = std::ranges::mismatch(prefix, name);
    prefix.erase(end, prefix.end());
  }
  while (!prefix.empty() && prefix.back() >= '0' && prefix.back() <= '9') prefix.pop_back();
  const std::string pattern = prefix + "*";
  const bool just_these = std::ranges::count_if(blocks, [&](const std::string& name) {
                            return matches(pattern, name);
                          }) == std::ssize(inner);
  return just_these ? fmt::format("['{}']", pattern) : fmt::format("[{}]", fmt::join(inner, ", "));
}

std::vector<std::string> recomputes_of(const job::JobSpec& job,
                                       const std::vector<std::string>& blocks) {
  std::vector<std::string> values = {""};
  if (!job.training.recompute.empty()) return values;  // the job has decided
  if (std::string inner = inner_blocks(blocks); !inner.empty()) values.push_back(std::move(inner));
  return values;
}

std::int64_t slice_samples(const job::JobSpec& job) {
  const auto& training = job.training;
  return ceil_div(training.global_batch_size, training.virtual_workers);
}

std::vector<std::int64_t> sizes_for(const JobSpread& spread, const job::JobSpec& job) {
  if (spread.meets) return {job.training.micro_batch_size};
  return micro_batches_of(job);
}

JobWay way(const job::JobSpec& job, const JobSpread& spread, std::int64_t micro_batch,
           const std::string& recompute) {
  JobWay way{.spread = spread.name,
             .micro_batch = micro_batch,
             .recompute = recompute,
             .rounds_alike = !spread.together,
             .product = spread.product,
             .changes = {{}, {"strategy."}}};
  for (const auto& [field, value] : spread.values) way.changes.flags.push_back(flag(field, value));
  if (micro_batch != job.training.micro_batch_size) {
    way.changes.flags_only.emplace_back("training.gradient_accumulation_steps");
    way.changes.flags.push_back(
        flag("training.global_batch_size", std::to_string(job.training.global_batch_size)));
    way.changes.flags.push_back(flag("training.micro_batch_size", std::to_string(micro_batch)));
  }
  if (!recompute.empty()) way.changes.flags.push_back(flag("training.recompute", recompute));
  return way;
}

DType dtype_of(job::Precision precision) {
  if (precision == job::Precision::kBF16) return DType::kBF16;
  return precision == job::Precision::kFP16 ? DType::kF16 : DType::kF32;
}

// Whether there surely is no step after the first of these.
bool begins_at_end(const job::Interval& every, const job::JobSpec& job) {
  if (every.unit() != job::Interval::Unit::kSteps || !job.training.max_steps)
    return every == job::Interval::end() || every == job::Interval::never();
  return every.amount() >= static_cast<double>(*job.training.max_steps);
}

plan::Saves saves_of(const job::JobSpec& job) {
  const bool keeps_best = job.evaluation.keep_best && !begins_at_end(job.evaluation.every, job);
  if (keeps_best || !begins_at_end(job.checkpoint.every, job)) return plan::Saves::kBeside;
  const auto& steps = job.training.max_steps;
  const bool is_due = steps && job.checkpoint.every == job::Interval::of_steps(*steps);
  return job.checkpoint.at_end || is_due ? plan::Saves::kAtEnd : plan::Saves::kNever;
}

plan::Spread spread_of(job::StrategyType type) {
  if (type == job::StrategyType::kSharded) return plan::Spread::kSharded;
  if (type == job::StrategyType::kTensor) return plan::Spread::kTensor;
  if (type == job::StrategyType::kContext) return plan::Spread::kContext;
  if (type == job::StrategyType::kExpert) return plan::Spread::kExpert;
  return type == job::StrategyType::kPipeline ? plan::Spread::kPipeline : plan::Spread::kData;
}

}  // namespace

void apply(const WayChanges& changes, job::LoadOptions& options) {
  options.flags.insert(options.flags.end(), changes.flags.begin(), changes.flags.end());
  options.flags_only.insert(options.flags_only.end(), changes.flags_only.begin(),
                            changes.flags_only.end());
}

std::vector<std::int64_t> micro_batches_of(const job::JobSpec& job) {
  std::vector<std::int64_t> sizes = {job.training.micro_batch_size};
  for (const std::int64_t parts : {1, 2, 4}) {
    const std::int64_t samples = slice_samples(job) / parts;
    if (samples > 0 && slice_samples(job) % parts == 0 &&
        std::ranges::find(sizes, samples) == sizes.end())
      sizes.push_back(samples);
  }
  return sizes;
}

std::vector<JobWay> ways_of(const job::JobSpec& job, const std::vector<std::string>& blocks) {
  std::vector<JobWay> ways;
  for (const JobSpread& spread : spreads_of(job))
    for (const std::int64_t micro_batch : sizes_for(spread, job))
      for (const std::string& recompute : recomputes_of(job, blocks))
        ways.push_back(way(job, spread, micro_batch, recompute));
  return ways;
}

Result<plan::Way> way_of(const job::JobSpec& job, const std::vector<std::string>& blocks,
                         double cores) {
  const std::int64_t local = std::max<std::int64_t>(1, job.workers.processes());
  const auto share = static_cast<std::int64_t>(std::floor(cores)) / local;
  plan::Way way{.spread = spread_of(job.strategy.core()),
                .workers = static_cast<std::int32_t>(job.workers.count),
                .lanes = static_cast<std::int32_t>(
                    job.training.lanes.value_or(std::max<std::int64_t>(1, share))),
                .slices = static_cast<std::int32_t>(job.training.virtual_workers),
                .slice_samples = slice_samples(job),
                .micro_batch = job.training.micro_batch_size,
                .samples = job.training.global_batch_size,
                .ordered = job.training.mode == job::TrainingMode::kOrdered,
                .elastic = job.keeps_sums(),
                .slices_meet = job.training.sync_batch_norm,
                .compares_replicas = job.replicas.compare_every != job::Interval::never(),
                .saves = saves_of(job),
                .offloads = job.optimizer.offload == job::OffloadKind::kDisk};
  for (const std::string& block : blocks)
    way.recomputed.push_back(matches_any(job.training.recompute, block));
  way.buckets = {
      .first_bytes = static_cast<std::int64_t>(job.communication.first_bucket_size.count),
      .bytes = static_cast<std::int64_t>(job.communication.bucket_size.count),
      .dtype = dtype_of(job.training.reduce_precision)};
  way.zero_stage = static_cast<std::int32_t>(job.strategy.zero_stage);
  way.shards = static_cast<std::int32_t>(job.strategy.mesh.shard);
  way.tensor = static_cast<std::int32_t>(job.strategy.tensor);
  way.sequence_parallel = job.strategy.sequence_parallel;
  way.context = static_cast<std::int32_t>(job.strategy.context);
  way.attention = job.strategy.attention == job::ContextAttention::kRing
                      ? plan::Attention::kRing
                      : plan::Attention::kUlysses;
  way.expert = static_cast<std::int32_t>(job.strategy.expert);
  way.stages = static_cast<std::int32_t>(job.strategy.stages);
  way.schedule = layout::pipeline_kind_from_string(job::to_string(job.strategy.schedule)).value();
  way.chunks_per_stage = static_cast<std::int32_t>(job.strategy.chunks_per_stage);
  way.optimizer_first = job.strategy.optimizer_first;
  MUSTER_ASSIGN(way.block_counts, job::blocks_by_hand(job.strategy, blocks));
  return way;
}

}  // namespace muster::cli
