#include "muster/plan/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "muster/base/round_up.h"
#include "muster/base/scratch_memory.h"
#include "muster/base/share.h"
#include "muster/layout/pipeline/make.h"
#include "muster/plan/checkpoint_cost.h"
#include "muster/plan/exchange.h"
#include "muster/plan/rank_messages.h"
#include "muster/plan/shard_cost.h"

namespace muster::plan {
namespace {

// What is allocated in smaller pieces stays with the heap of its thread once it is freed
// (keep_freed_memory of app/worker/program).
constexpr std::uint64_t kStaysInHeap = std::uint64_t{64} << 20;

Duration scaled(Duration time, double by) {
  return Duration(std::llround(static_cast<double>(time.count()) * by));
}

Error invalid(std::string why) {
  return fail(ErrorCode::kInvalid, "[plan/estimate] " + std::move(why));
}

// A run of blocks, as one worker has them.
class Part {
 public:
  Part(const ModelProfile& profile, const PassProfile& pass, const Way& way)
      : profile_(profile), pass_(pass), way_(way) {}

  void add(layout::BlockRange blocks) { ranges_.push_back(blocks); }

  // Floats of each slot: what goes with the gradients, then the parameters, the last first.
  std::vector<std::int64_t> slot_counts() const {
    std::int64_t notes = profile_.notes;
    std::vector<std::int64_t> counts{0};
    each([&](const BlockProfile& block, std::size_t) { notes += block.statistics; });
    for (auto range = ranges_.rbegin(); range != ranges_.rend(); ++range)
      for (std::int32_t b = range->end; b-- > range->begin;) {
        const auto& own = profile_.blocks[static_cast<std::size_t>(b)].trained;
        counts.insert(counts.end(), own.rbegin(), own.rend());
      }
    counts.front() = notes;
    return counts;
  }

  std::uint64_t weights() const {
    std::int64_t elements = 0;
    each([&](const BlockProfile& block, std::size_t) {
      elements += block.trained_elements() + block.frozen + block.statistics;
      for (const TiedParameter& tied : block.tied)
        if (!has(tied.owner)) elements += tied.elements;
    });
    return static_cast<std::uint64_t>(elements) * kFloat;
  }
  std::uint64_t optimizer() const {
    std::uint64_t bytes = 0;
    each([&](const BlockProfile& block, std::size_t) { bytes += block.optimizer_bytes; });
    return bytes;
  }
  std::uint64_t statistics() const {
    std::int64_t elements = 0;
    each([&](const BlockProfile& block, std::size_t) { elements += block.statistics; });
    return static_cast<std::uint64_t>(elements) * kFloat;
  }
  std::int64_t trained() const {
    std::int64_t elements = 0;
    each([&](const BlockProfile& block, std::size_t) { elements += block.trained_elements(); });
    return elements;
  }

  layout::ChunkCost cost() const {  // of one pass
    Duration forward{}, backward{};
    std::uint64_t output = 0;
    each([&](const BlockProfile&, std::size_t b) {
      const BlockPass& block = pass_.blocks[b];
      forward += block.forward;
      backward += block.backward + (recomputed(b) ? block.forward : Duration{});
      output = block.output_bytes;
    });
    return {forward, backward - backward / 2, backward / 2, output};
  }
  std::uint64_t kept() const {  // of one pass, from forward to backward
    std::uint64_t bytes = 0;
    each([&](const BlockProfile&, std::size_t b) {
      bytes += recomputed(b) ? pass_.blocks[b].output_bytes : pass_.blocks[b].activation_bytes;
    });
    return bytes;
  }
  std::uint64_t recomputing() const {  // besides, while backward runs
    std::uint64_t most = 0;
    each([&](const BlockProfile&, std::size_t b) {
      if (recomputed(b)) most = std::max(most, pass_.blocks[b].activation_bytes);
    });
    return most;
  }
  std::uint64_t backward() const {  // besides, of one pass
    std::uint64_t most = 0;
    each([&](const BlockProfile&, std::size_t b) {
      most = std::max(most, pass_.blocks[b].backward_bytes);
    });
    return most;
  }
  // Tied weights of other workers' blocks.
  template <class Body>
  void each_borrowed(const Body& body) const {
    each([&](const BlockProfile& block, std::size_t) {
      for (const TiedParameter& tied : block.tied)
        if (!has(tied.owner)) body(tied);
    });
  }
  bool has(std::int32_t block) const {
    return std::ranges::any_of(
        ranges_, [&](const auto& range) { return block >= range.begin && block < range.end; });
  }

 private:
  template <class Body>
  void each(const Body& body) const {
    for (const layout::BlockRange& range : ranges_)
      for (std::int32_t b = range.begin; b < range.end; ++b)
        body(profile_.blocks[static_cast<std::size_t>(b)], static_cast<std::size_t>(b));
  }
  bool recomputed(std::size_t block) const {
    return block < way_.recomputed.size() && way_.recomputed[block];
  }

  const ModelProfile& profile_;
  const PassProfile& pass_;
  const Way& way_;
  std::vector<layout::BlockRange> ranges_;
};

// Where more threads compute than there are cores, each gets its share of them.
double stretch(double threads, const Hardware& hardware) {
  return std::max(1.0, threads / hardware.cores);
}

Duration update_of(const ModelProfile& profile, std::int64_t trained, std::int32_t lanes) {
  const std::int64_t all = profile.trained_parameters();
  if (all == 0) return {};
  return scaled(profile.update, static_cast<double>(trained) / static_cast<double>(all) /
                                    static_cast<double>(lanes));
}

// Of a state on a disk two windows a lane are in memory while it is updated.
void offload(const Way& way, std::int32_t lanes, MemoryUse& memory) {
  if (!way.offloads) return;
  memory.disk = memory.optimizer;
  memory.optimizer =
      std::min(memory.disk, 2 * kScratchWindowBytes * static_cast<std::uint64_t>(lanes));
}

// What of the reduction is left when backward has ended: buckets are reduced as the last pass fills
// them, but for the last bucket.
Duration exposed(const ExchangeCost& exchange, Duration last_backward) {
  return std::max(exchange.last, exchange.reduce - last_backward);
}

// Every worker runs its slices through all blocks, on its lanes; with cut tensors through its part
// of them.
class Replicated {
 public:
  Replicated(const ModelProfile& profile, const PassProfile& pass, const Way& way,
             const Hardware& hardware)
      : profile_(profile), way_(way), hardware_(hardware), whole_(profile, pass, way) {
    whole_.add({0, static_cast<std::int32_t>(profile.blocks.size())});
    const auto most = static_cast<std::int32_t>(even_share(way.slices, way.replicas(), 0).size());
    lanes_ = std::min(way.lanes, most);
    slower_ = stretch(static_cast<double>(lanes_) * way.workers, hardware);
    rounds_ = ceil_div(most, lanes_);
  }

  Estimate price() const {
    Estimate result;
    const layout::ChunkCost cost = whole_.cost();
    const Duration pass = cost.forward + backward();
    result.time.computing = scaled(pass * (rounds_ * way_.passes()), slower_);
    result.time.update =
        scaled(update_of(profile_, whole_.trained(), lanes_) / static_cast<std::int64_t>(shares()),
               slower_);
    result.memory = {
        .weights = whole_.weights(),
        .optimizer = ceil_div(whole_.optimizer(), shares()),
        .activations = activations(),
        .checkpoint = checkpoint_bytes(profile_, way_, state_held_whole(profile_, way_, 0)),
        .process = profile_.process_bytes};
    offload(way_, lanes_, result.memory);
    if (way_.spread == Spread::kSharded && way_.zero_stage > 1)
      add_shards(shard_cost(profile_, way_, hardware_), result);
    else
      add_exchange(result);
    return result;
  }

 private:
  Duration backward() const {
    const layout::ChunkCost cost = whole_.cost();
    return cost.backward_input + cost.backward_weight;
  }
  std::uint64_t shares() const {
    return static_cast<std::uint64_t>(way_.spread == Spread::kSharded ? way_.workers : 1);
  }

  // Each lane's, and of the pass that the first worker makes by itself after the first step, to
  // count its operations (perf/mfu), where that does not take what lanes have given back.
  std::uint64_t activations() const {
    const std::uint64_t lane = whole_.kept() + whole_.recomputing() + whole_.backward();
    const std::uint64_t counting = whole_.backward() < kStaysInHeap ? whole_.backward() : 0;
    return lane * static_cast<std::uint64_t>(lanes_) + counting;
  }

  static void count(const ExchangeCost& exchange, Estimate& result) {
    result.memory.gradients = exchange.held - exchange.kept;
    result.memory.buffers = exchange.kept + exchange.seen;
    result.bytes_on_wire = exchange.bytes;
    result.sent = exchange.sent;
  }

  void add_exchange(Estimate& result) const {
    const comm::SumTree tree = sum_tree_of(way_);
    const ExchangeCost exchange = exchange_cost(way_, whole_.slot_counts(), tree, hardware_);
    count(exchange, result);
    if (tree.size() > 1)
      result.time.communication = exposed(exchange, scaled(backward(), slower_)) + exchange.gather;
  }

  // Every pass hides what it has to tell behind the next ones, and a block the next one's weights.
  void add_shards(const ShardCost& cost, Estimate& result) const {
    count(cost.gradients, result);
    result.memory.buffers += cost.window;
    if (way_.zero_stage > 2) result.memory.weights = cost.weights + whole_.statistics();
    if (way_.workers == 1) return;
    const Duration all = scaled(backward() * (rounds_ * way_.passes()), slower_);
    result.time.communication =
        exposed(cost.gradients, all) + cost.gradients.gather + cost.first_fetch +
        std::max(Duration{}, cost.fetch - cost.first_fetch - result.time.computing);
  }

  const ModelProfile& profile_;
  const Way& way_;
  const Hardware& hardware_;
  Part whole_;
  std::int32_t lanes_ = 1;
  double slower_ = 1;
  std::int32_t rounds_ = 1;
};

bool is_cut_so(const CutProfile& known, const Way& way) {
  if (known.ranks != way.together()) return false;
  if (way.spread == Spread::kContext) return known.attention == way.attention;
  return !known.attention && known.sequence == way.sequence_parallel;
}

// As data parallelism of replicas, each of whose workers has a part of the model or of its
// sequences, and meets the others in the middle of every pass.
Result<Estimate> priced_in_groups(const ModelProfile& profile, const Way& way,
                                  const Hardware& hardware) {
  const bool context = way.spread == Spread::kContext;
  const std::int32_t ranks = way.together();
  if (ranks < 1 || way.workers % ranks != 0)
    return invalid(
        fmt::format("{} workers are no whole number of replicas of {}", way.workers, ranks));
  const auto cut = std::ranges::find_if(
      profile.cuts, [&](const CutProfile& known) { return is_cut_so(known, way); });
  if (cut == profile.cuts.end() || cut->pass.samples != way.micro_batch)
    return invalid(fmt::format("passes of {} samples were not measured with {} in {} parts",
                               way.micro_batch, context ? "sequences" : "tensors", ranks));
  ModelProfile part = profile;
  part.blocks = cut->blocks;
  const auto trained = [](const std::vector<BlockProfile>& blocks) {
    std::int64_t elements = 0;
    for (const BlockProfile& block : blocks) elements += block.trained_elements();
    return static_cast<double>(std::max<std::int64_t>(1, elements));
  };
  part.update = scaled(profile.update, trained(cut->blocks) / trained(profile.blocks));
  Estimate result = Replicated(part, cut->pass, way, hardware).price();
  result.memory.checkpoint =
      checkpoint_bytes(profile, way, state_held_whole(profile, way, cut->whole));
  const MessageCost messages = message_cost(*cut, way, hardware);
  result.time.communication += messages.time;
  result.memory.buffers += messages.largest;
  result.bytes_on_wire += messages.bytes;
  result.sent += messages.sent;
  return result;
}

struct CutModel {
  layout::PipelineSchedule schedule;
  layout::Partition partition;
};

Result<CutModel> cut(const ModelProfile& profile, const PassProfile& pass, const Way& way) {
  if (way.stages < 1 || way.workers % way.stages != 0)
    return invalid(fmt::format("{} workers are no whole number of replicas of {} stages",
                               way.workers, way.stages));
  layout::PipelineOptions options{.kind = way.schedule, .stages = way.stages};
  options.micro_batches =
      static_cast<std::int32_t>(even_share(way.slices, way.replicas(), 0).size()) * way.passes();
  if (way.schedule == layout::PipelineKind::kInterleaved)
    options.chunks_per_stage = way.chunks_per_stage;
  CutModel model;
  MUSTER_ASSIGN(model.schedule, layout::make_schedule(options));
  const auto blocks = static_cast<std::int32_t>(profile.blocks.size());
  if (blocks < model.schedule.chunks())
    return invalid(fmt::format("the model has {} blocks, too few for {} chunks on {} stages",
                               blocks, model.schedule.chunks(), way.stages));
  if (!way.block_counts.empty()) {
    MUSTER_ASSIGN(model.partition,
                  layout::partition_by_hand(way.block_counts, {blocks, model.schedule.chunks()}));
    return model;
  }
  std::vector<Duration> costs;
  for (std::int32_t b = 0; b < blocks; ++b) {
    Part block(profile, pass, way);
    block.add({b, b + 1});
    const layout::ChunkCost cost = block.cost();
    costs.push_back(cost.forward + cost.backward_input + cost.backward_weight);
  }
  MUSTER_ASSIGN(model.partition, layout::partition_by_cost(costs, model.schedule.stage_of));
  return model;
}

// The stages of one replica, one after the other.
class Pipelined {
 public:
  Pipelined(const ModelProfile& profile, const PassProfile& pass, const Way& way,
            const Hardware& hardware, CutModel model)
      : profile_(profile), way_(way), hardware_(hardware), model_(std::move(model)) {
    for (std::int32_t stage = 0; stage < way.stages; ++stage) {
      stages_.emplace_back(profile, pass, way);
      for (const auto chunk : model_.schedule.chunks_of(layout::Stage{stage}))
        stages_.back().add(model_.partition[static_cast<std::size_t>(chunk)]);
      exchanges_.push_back(
          exchange_cost(way, stages_.back().slot_counts(), way.replicas(), hardware));
    }
    for (const layout::BlockRange& blocks : model_.partition) {
      Part chunk(profile, pass, way);
      chunk.add(blocks);
      costs_.chunks.push_back(chunk.cost());
      // Where the backward is split, all of it is kept until the weights' part is done.
      memory_.push_back({.activations = chunk.kept(), .weight_inputs = chunk.kept()});
    }
    costs_.link = hardware.link;
  }

  Result<Estimate> price() {
    Estimate result;
    MUSTER_ASSIGN(result.pipeline, simulate(model_.schedule, costs_, memory_));
    result.partition = model_.partition;
    result.bytes_on_wire = exchanges_.front().bytes;
    set_times(result);
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const MemoryUse memory = memory_of(*result.pipeline, stage);
      if (memory.total() > result.memory.total()) result.memory = memory;
      result.sent = std::max(result.sent, sent_by(*result.pipeline, stage));
    }
    return result;
  }

 private:
  // Cores that several stages share are never idle while one of them has something to compute.
  void set_times(Estimate& result) const {
    const PipelineSimulation& run = *result.pipeline;
    Duration busy{}, busiest{};
    for (const StageSummary& stage : run.stages) {
      busy += stage.busy;
      busiest = std::max(busiest, stage.busy);
    }
    const Duration shared = scaled(busy, static_cast<double>(way_.replicas()) / hardware_.cores);
    const Duration length = std::max(run.makespan, shared);
    result.time.computing = busiest;
    result.time.waiting = length - busiest;
    Duration tied{};
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      if (way_.replicas() > 1) {
        const layout::ChunkCost& last = costs_.chunks[stage];  // its first chunk ends last
        result.time.communication =
            std::max(result.time.communication,
                     exposed(exchanges_[stage], last.backward_input + last.backward_weight));
      }
      const double slower = stretch(way_.workers, hardware_);
      result.time.update = std::max(
          result.time.update, scaled(update_of(profile_, stages_[stage].trained(), 1), slower));
      stages_[stage].each_borrowed([&](const TiedParameter& parameter) {
        tied += hardware_.link.latency +
                hardware_.link.transfer(static_cast<std::uint64_t>(parameter.elements) * kFloat);
      });
    }
    result.time.communication += tied;  // the owners' new weights, before the next step
  }

  MemoryUse memory_of(const PipelineSimulation& run, std::size_t stage) const {
    const Part& part = stages_[stage];
    MemoryUse memory{
        .weights = part.weights(),
        .gradients = exchanges_[stage].held - exchanges_[stage].kept,
        .optimizer = part.optimizer(),
        .activations = run.stages[stage].peak_bytes + part.recomputing() + part.backward(),
        .buffers = exchanges_[stage].kept + exchanges_[stage].seen + largest_message(),
        .checkpoint = stage == 0 ? saved_by(part) : 0,
        .process = profile_.process_bytes};
    offload(way_, 1, memory);
    return memory;
  }
  std::uint64_t saved_by(const Part& part) const {
    return checkpoint_bytes(profile_, way_, part.weights() + part.optimizer());
  }
  std::uint64_t largest_message() const {
    std::uint64_t most = 0;
    for (const layout::ChunkCost& chunk : costs_.chunks) most = std::max(most, chunk.output_bytes);
    return 2 * most;  // one that comes, one that goes
  }

  // Activations and their gradients; gradients of weights that another stage owns, for every
  // micro-batch; the owner's new weights; the reduction between replicas.
  std::uint64_t sent_by(const PipelineSimulation& run, std::size_t stage) const {
    std::uint64_t bytes = run.stages[stage].sent_bytes + exchanges_[stage].sent;
    stages_[stage].each_borrowed([&](const TiedParameter& tied) {
      if (tied.trained)
        bytes += static_cast<std::uint64_t>(tied.elements) * kFloat *
                 static_cast<std::uint64_t>(run.schedule.micro_batches);
    });
    for (const Part& other : stages_)
      other.each_borrowed([&](const TiedParameter& tied) {
        if (stages_[stage].has(tied.owner))
          bytes += static_cast<std::uint64_t>(tied.elements) * kFloat;
      });
    return bytes;
  }

  const ModelProfile& profile_;
  const Way& way_;
  const Hardware& hardware_;
  const CutModel model_;
  std::vector<Part> stages_;
  std::vector<ExchangeCost> exchanges_;
  layout::PipelineCosts costs_;
  std::vector<ChunkMemory> memory_;
};

}  // namespace

Result<Estimate> estimate(const ModelProfile& profile, const Way& way, const Hardware& hardware) {
  const PassProfile* pass = profile.pass_of(way.micro_batch);
  if (!pass) return invalid(fmt::format("passes of {} samples were not measured", way.micro_batch));
  if (way.replicas() > way.slices)
    return invalid(fmt::format("{} workers need a slice of the batch each, and there are {}",
                               way.replicas(), way.slices));
  if (way.spread == Spread::kTensor || way.spread == Spread::kContext)
    return priced_in_groups(profile, way, hardware);
  if (way.spread == Spread::kSharded && way.zero_stage > 1 && !profile.shards_among(way.workers))
    return invalid(fmt::format("shards among {} workers were not looked at", way.workers));
  if (way.spread != Spread::kPipeline) return Replicated(profile, *pass, way, hardware).price();
  MUSTER_ASSIGN(CutModel model, cut(profile, *pass, way));
  return Pipelined(profile, *pass, way, hardware, std::move(model)).price();
}

}  // namespace muster::plan
