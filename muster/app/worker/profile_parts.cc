#include "muster/app/worker/profile_parts.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "muster/app/worker/block_costs.h"
#include "muster/app/worker/build_model.h"
#include "muster/app/worker/build_strategy.h"
#include "muster/parallel/lane_model.h"
#include "muster/parallel/weight_shards.h"

namespace muster::app {
namespace {

using parallel::BucketLayout;
using parallel::WeightBucket;

constexpr Rank kFirst{0};

std::int64_t elements(const models::BlockParameter& parameter) { return parameter.tensor.numel(); }

bool has(const std::vector<models::Parameter>& parameters, const std::string& name) {
  return std::ranges::find(parameters, name, &models::Parameter::name) != parameters.end();
}

bool trains(const models::Model& model, const std::string& name) {
  return has(model.parameters(), name);
}

// As shards are cut; of a model with more cells than anybody waits for in coarser ones, which moves
// the borders of shards, but hardly their sizes.
std::vector<optim::Cells> cells_to_cut(const std::vector<models::Parameter>& parameters) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  std::vector<optim::Cells> cells = parallel::cells_by_slot(parameters);
  std::int64_t all = 0;
  for (const optim::Cells& of : cells) all += of.count();
  for (optim::Cells& of : cells) of.size *= 1 + all / kMost;
  return cells;
}

// In buckets laid out so, cut among the job's workers; of weights as its passes get them.
std::vector<WeightBucket> cut(const std::vector<models::Parameter>& parameters,
                              const BucketLayout& layout, const job::JobSpec& job) {
  const auto plan = parallel::plan_shards(layout, cells_to_cut(parameters),
                                          static_cast<std::int32_t>(job.workers.count));
  return parallel::planned_buckets(parameters, layout, plan.shards,
                                   parallel::products_in(compute_of(job.training).precision));
}

plan::ShardedBuckets numbers_of(const std::vector<WeightBucket>& buckets) {
  plan::ShardedBuckets numbers;
  for (const WeightBucket& bucket : buckets) {
    numbers.sizes.push_back(bucket.shards->count());
    numbers.own.push_back(bucket.shards->count_of(kFirst));
  }
  return numbers;
}

std::int64_t whole_elements(const models::Model& part) {
  std::int64_t whole = 0;
  for (const auto* parameters : {&part.parameters(), &part.expert_parameters()})
    for (const models::Parameter& parameter : *parameters)
      if (!parameter.cut.is_part()) whole += parameter.tensor.numel();
  return whole;
}

// The optimizer remembers as much of each element as of others of its block.
std::uint64_t optimizer_share(const plan::BlockProfile& part, const plan::BlockProfile& whole) {
  if (whole.trained_elements() == 0) return 0;
  const double share =
      static_cast<double>(part.held_elements()) / static_cast<double>(whole.trained_elements());
  return static_cast<std::uint64_t>(static_cast<double>(whole.optimizer_bytes) * share);
}

// What is measured, and with what.
struct Measured {
  const plan::ModelProfile& profile;  // of the whole model
  const BuildModel& build;
  const CutPasses& passes;
  const job::JobSpec& job;
};

// Its weights, and the whole of the largest tensor that is cut, twice while it gets its values.
std::uint64_t bytes_to_initialize(const std::vector<plan::BlockProfile>& part,
                                  const std::vector<plan::BlockProfile>& whole) {
  std::int64_t elements = 0, largest = 0;
  for (const plan::BlockProfile& block : part) elements += block.held_elements() + block.frozen;
  for (const plan::BlockProfile& block : whole)
    for (const std::int64_t count : block.trained) largest = std::max(largest, count);
  return static_cast<std::uint64_t>(elements + 2 * largest) * plan::kFloat;
}
using MaybeCut = std::optional<plan::CutProfile>;  // none: the model cannot be cut so

// `found` says how the model was spread over `ranks`.
MaybeCut measure_part(plan::CutProfile found, models::Model& part, RankNotes& told,
                      const Measured& measured) {
  found.whole = whole_elements(part);
  for (std::size_t b = 0; b < part.blocks().size(); ++b) {
    found.blocks.push_back(look_at(part, b));
    found.blocks[b].optimizer_bytes = optimizer_share(found.blocks[b], measured.profile.blocks[b]);
  }
  const CutPasses& passes = measured.passes;
  if (passes.batch == nullptr) {
    found.pass = counted_pass(found.blocks, measured.job.training.micro_batch_size);
    return found;
  }
  if (bytes_to_initialize(found.blocks, measured.profile.blocks) > passes.room.bytes) return {};
  part.initialize(measured.job.seed);
  auto pass = measure_cut_passes(part, told, *passes.batch, measured.job, passes.room);
  if (!pass) return {};  // heads or positions that are no multiple
  found.pass = std::move(*pass);
  return found;
}

// Tensors, then experts; of one rank or one holder: whole.
Result<MaybeCut> measure_cut(const CountedRanks::Cut& cut, std::int32_t holders,
                             const Measured& measured) {
  MUSTER_ASSIGN(const auto part, measured.build());
  const auto told = std::make_shared<RankNotes>();
  if (!part->split(std::make_shared<const CountedRanks>(cut, told))) return MaybeCut();
  if (!part->share_experts(std::make_shared<const CountedExperts>(holders, told)))
    return MaybeCut();
  return measure_part({.ranks = cut.ranks, .sequence = cut.sequence, .holders = holders}, *part,
                      *told, measured);
}

Result<MaybeCut> measure_shared(std::int32_t size, plan::Attention attention,
                                const Measured& measured) {
  MUSTER_ASSIGN(const auto part, measured.build());
  const auto told = std::make_shared<RankNotes>();
  const auto ranks = std::make_shared<const CountedContext>(
      size,
      attention == plan::Attention::kRing ? models::ContextAttention::kRing
                                          : models::ContextAttention::kUlysses,
      told);
  if (!part->share_sequences(ranks)) return MaybeCut();
  return measure_part({.ranks = size, .attention = attention}, *part, *told, measured);
}

// Experts on all numbers of workers that divide those of the job, and tensors in parts as well.
Status add_dealt(const Measured& measured, std::vector<plan::CutProfile>& cuts) {
  const auto workers = static_cast<std::int32_t>(measured.job.workers.count);
  for (std::int32_t holders = 2; holders <= workers; ++holders) {
    if (workers % holders != 0) continue;
    for (std::int32_t ranks = 1; ranks <= workers / holders; ++ranks) {
      if (workers / holders % ranks != 0) continue;
      MUSTER_ASSIGN(auto found, measure_cut({.ranks = ranks}, holders, measured));
      if (found) cuts.push_back(std::move(*found));
    }
  }
  return ok();
}

}  // namespace

plan::BlockProfile look_at(const models::Model& model, std::size_t index) {
  const models::NamedBlock& named = model.blocks()[index];
  plan::BlockProfile block{.name = named.name, .trained = {}};
  for (const models::BlockParameter& own : named.block->parameters()) {
    const std::string name = named.name + "." + own.name;
    if (has(model.expert_parameters(), name))
      block.experts.push_back(elements(own));
    else if (trains(model, name))
      block.trained.push_back(elements(own));
    else
      block.frozen += elements(own);
  }
  for (const models::BlockStatistic& statistic : named.block->statistics())
    block.statistics += statistic.tensor.numel();
  for (const models::BlockParameter& borrowed : named.block->borrowed()) {
    const auto owner = std::ranges::find(model.blocks(), borrowed.owner, &models::NamedBlock::name);
    block.tied.push_back({.owner = static_cast<std::int32_t>(owner - model.blocks().begin()),
                          .name = borrowed.owner + "." + borrowed.name,
                          .elements = elements(borrowed),
                          .trained = trains(model, borrowed.owner + "." + borrowed.name)});
  }
  return block;
}

plan::PassProfile counted_pass(const std::vector<plan::BlockProfile>& blocks,
                               std::int64_t samples) {
  plan::PassProfile pass{.samples = samples, .blocks = {}};
  for (const plan::BlockProfile& block : blocks) {
    const auto largest = std::ranges::max_element(block.trained);
    const Duration forward(1 + block.held_elements() + block.frozen);
    plan::BlockPass& counted = pass.blocks.emplace_back();
    counted.forward = forward;
    counted.backward = 2 * forward;
    if (largest != block.trained.end())
      counted.backward_bytes = static_cast<std::uint64_t>(*largest) * plan::kFloat;
  }
  return pass;
}

plan::ShardProfile shards_of(const models::Model& model, const job::JobSpec& job) {
  parallel::BucketSizes sizes = bucket_sizes_of(job);
  sizes.first_slot_alone = true;
  const auto counts = parallel::LaneModel::slot_counts(model);
  const auto& trained = model.parameters();
  plan::ShardProfile shards{.workers = static_cast<std::int32_t>(job.workers.count)};
  shards.gradients = numbers_of(cut(trained, parallel::plan_buckets(counts, sizes), job));
  std::vector<WeightBucket> buckets =
      cut(trained, parallel::plan_block_buckets(model, trained, counts.front(), sizes), job);
  shards.by_block = numbers_of(buckets);
  sizes.dtype = DType::kF32;
  std::ranges::move(
      cut(model.frozen(), parallel::plan_block_buckets(model, model.frozen(), 0, sizes), job),
      std::back_inserter(buckets));
  shards.weights = numbers_of(buckets);
  for (const WeightBucket& bucket : buckets)
    shards.weight_bytes.push_back(bucket.sent_bytes(kFirst));
  shards.needed = parallel::buckets_needed(model, buckets);
  return shards;
}

Result<std::vector<plan::CutProfile>> cuts_of(const plan::ModelProfile& profile,
                                              const BuildModel& build, const CutPasses& passes,
                                              const job::JobSpec& job) {
  const Measured measured{profile, build, passes, job};
  std::vector<plan::CutProfile> cuts;
  for (std::int32_t ranks = 2; ranks <= job.workers.count; ++ranks) {
    if (job.workers.count % ranks != 0) continue;
    for (const bool sequence : {false, true}) {
      MUSTER_ASSIGN(auto found, measure_cut({ranks, sequence}, 1, measured));
      if (found) cuts.push_back(std::move(*found));
    }
    for (const auto attention : {plan::Attention::kUlysses, plan::Attention::kRing}) {
      MUSTER_ASSIGN(auto found, measure_shared(ranks, attention, measured));
      if (found) cuts.push_back(std::move(*found));
    }
  }
  if (job.model.type == job::ModelType::kMoe) MUSTER_TRY(add_dealt(measured, cuts));
  return cuts;
}

}  // namespace muster::app
