#include "muster/plan/pipelined.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/round_up.h"
#include "muster/base/share.h"
#include "muster/layout/pipeline/make.h"
#include "muster/plan/checkpoint_cost.h"
#include "muster/plan/rank_messages.h"

namespace muster::plan {
namespace {

struct StagedModel {
  layout::PipelineSchedule schedule;
  layout::Partition partition;
};

Result<layout::Partition> partition_of_blocks(const RankModel& model, const Way& way,
                                              const layout::PipelineSchedule& schedule) {
  const auto blocks = static_cast<std::int32_t>(model.here.blocks.size());
  if (blocks < schedule.chunks())
    return not_priced(fmt::format("the model has {} blocks, too few for {} chunks on {} stages",
                                  blocks, schedule.chunks(), way.stages));
  if (!way.block_counts.empty())
    return layout::partition_by_hand(way.block_counts, {blocks, schedule.chunks()});
  std::vector<Duration> costs;
  for (std::int32_t b = 0; b < blocks; ++b) {
    Part block(model.here, model.pass, way);
    block.add({b, b + 1});
    const layout::ChunkCost cost = block.cost();
    costs.push_back(cost.forward + cost.backward_input + cost.backward_weight);
  }
  return layout::partition_by_cost(costs, schedule.stage_of);
}

Result<StagedModel> on_stages(const RankModel& model, const Way& way) {
  layout::PipelineOptions options{.kind = way.schedule, .stages = way.stages};
  options.micro_batches =
      static_cast<std::int32_t>(even_share(way.slices, way.replicas(), 0).size()) * way.passes();
  if (way.schedule == layout::PipelineKind::kInterleaved)
    options.chunks_per_stage = way.chunks_per_stage;
  StagedModel staged;
  MUSTER_ASSIGN(staged.schedule, layout::make_schedule(options));
  MUSTER_ASSIGN(staged.partition, partition_of_blocks(model, way, staged.schedule));
  return staged;
}

class Pipelined {
 public:
  Pipelined(const RankModel& model, const Way& way, const Hardware& hardware, StagedModel staged)
      : model_(model),
        way_(way),
        hardware_(hardware),
        staged_(std::move(staged)),
        waits_(model.cut ? waits_of(*model.cut, way, hardware) : std::vector<BlockWaits>()) {
    add_stages();
    for (const layout::BlockRange& blocks : staged_.partition) {
      Part chunk = no_blocks();
      chunk.add(blocks);
      costs_.chunks.push_back(chunk.cost());
      // Where the backward is split, all of it is kept until the weights' part is done.
      memory_.push_back({.activations = chunk.kept(), .weight_inputs = chunk.kept()});
    }
    costs_.link = hardware.link;
  }

  Result<Estimate> price() {
    Estimate result;
    MUSTER_ASSIGN(result.pipeline, simulate(staged_.schedule, costs_, memory_));
    result.partition = staged_.partition;
    result.bytes_on_wire = of_exchanges(0, &ExchangeCost::bytes) + messages_.front().bytes;
    set_times(result);
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const MemoryUse memory = memory_of(*result.pipeline, stage);
      if (memory.total() > result.memory.total()) result.memory = memory;
      result.sent = std::max(result.sent, sent_by(*result.pipeline, stage));
    }
    return result;
  }

 private:
  Part no_blocks() const {
    return {model_.here, model_.pass, way_, waits_.empty() ? nullptr : &waits_};
  }

  void add_stages() {
    for (std::int32_t stage = 0; stage < way_.stages; ++stage) {
      stages_.push_back(no_blocks());
      for (const auto chunk : staged_.schedule.chunks_of(layout::Stage{stage}))
        stages_.back().add(staged_.partition[static_cast<std::size_t>(chunk)]);
      exchanges_.push_back(exchanges_of(stages_.back(), way_, hardware_));
      messages_.push_back(messages_of_stage(stages_.back()));
    }
  }

  std::uint64_t of_exchanges(std::size_t stage, std::uint64_t ExchangeCost::*bytes) const {
    std::uint64_t sum = 0;
    for (const ExchangeCost& exchange : exchanges_[stage]) sum += exchange.*bytes;
    return sum;
  }

  MessageCost messages_of_stage(const Part& stage) const {
    if (!model_.cut) return {};
    return message_cost(*model_.cut, stage.ranges(),
                        whole_elements(model_.whole, *model_.cut, stage.ranges()), way_, hardware_);
  }

  // Cores that several stages share are never idle while one of them has something to compute.
  void set_times(Estimate& result) const {
    const PipelineSimulation& run = *result.pipeline;
    Duration busy{}, busiest{};
    for (const StageSummary& stage : run.stages) {
      busy += stage.busy;
      busiest = std::max(busiest, stage.busy);
    }
    const double beside = static_cast<double>(way_.workers) / way_.stages;  // of each stage
    const Duration length = std::max(run.makespan, scaled(busy, beside / hardware_.cores));
    result.time.computing = busiest;
    result.time.waiting = length - busiest;
    Duration tied{};
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      result.time.communication = std::max(result.time.communication, reduction_of(stage));
      result.time.update = std::max(result.time.update, update_of_stage(stage));
      stages_[stage].each_borrowed([&](const TiedParameter& parameter) {
        tied += hardware_.link.latency +
                hardware_.link.transfer(static_cast<std::uint64_t>(parameter.elements) * kFloat);
      });
    }
    result.time.communication += tied;  // the owners' new weights, before the next step
  }

  Duration reduction_of(std::size_t stage) const {
    const layout::ChunkCost& last = costs_.chunks[stage];  // its first chunk ends last
    Duration time = messages_[stage].after;
    for (const ExchangeCost& exchange : exchanges_[stage])
      time += exposed(exchange, last.backward_input + last.backward_weight) + exchange.gather;
    return time;
  }
  Duration update_of_stage(std::size_t stage) const {
    return scaled(update_of(model_.here, stages_[stage].trained(), 1) / way_.shard_count(),
                  stretch(way_.workers, hardware_));
  }

  MemoryUse memory_of(const PipelineSimulation& run, std::size_t stage) const {
    const Part& part = stages_[stage];
    const auto shares = static_cast<std::uint64_t>(way_.shard_count());
    const PassMemory passes =
        pass_memory(run.stages[stage].peak_bytes + part.recomputing(), part.in_hand(),
                    stage == 0 ? counting_whole(model_, way_) : BriefMemory{});
    const std::uint64_t kept = of_exchanges(stage, &ExchangeCost::kept);
    MemoryUse memory{.weights = part.weights(),
                     .gradients = of_exchanges(stage, &ExchangeCost::held) - kept,
                     .optimizer = ceil_div(part.optimizer(), shares),
                     .activations = passes.activations,
                     .buffers = kept + of_exchanges(stage, &ExchangeCost::seen) +
                                largest_message(stage) + kept_for_rollback(part),
                     .checkpoint = stage == 0 ? saved_by(part, passes.given_back) : 0,
                     .process = model_.whole.process_bytes};
    offload(way_, part, 1, memory);
    return memory;
  }
  std::uint64_t saved_by(const Part& part, std::uint64_t given_back) const {
    std::uint64_t here = way_.shard_count() == 1 ? part.optimizer() : 0;
    here += way_.tensor == 1 ? part.weights() : 0;  // what is not cut is little
    return checkpoint_bytes(model_.whole, way_, here, given_back);
  }
  // The weights that it updates, and what the optimizer remembers of them.
  std::uint64_t kept_for_rollback(const Part& part) const {
    if (!way_.optimizer_first) return 0;
    const auto weights = static_cast<std::uint64_t>(part.trained()) * kFloat;
    return ceil_div(weights + part.optimizer(), static_cast<std::uint64_t>(way_.shard_count()));
  }
  std::uint64_t largest_message(std::size_t stage) const {
    std::uint64_t most = 0;
    for (const layout::ChunkCost& chunk : costs_.chunks) most = std::max(most, chunk.output_bytes);
    return 2 * most + messages_[stage].largest;  // one that comes, one that goes
  }

  // Activations and their gradients; gradients of weights that another stage owns, for every
  // micro-batch; the owner's new weights; the reduction between replicas; what ranks of a stage
  // tell each other.
  std::uint64_t sent_by(const PipelineSimulation& run, std::size_t stage) const {
    std::uint64_t bytes = run.stages[stage].sent_bytes + of_exchanges(stage, &ExchangeCost::sent) +
                          messages_[stage].sent;
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

  const RankModel& model_;
  const Way& way_;
  const Hardware& hardware_;
  const StagedModel staged_;
  const std::vector<BlockWaits> waits_;
  std::vector<Part> stages_;
  std::vector<std::vector<ExchangeCost>> exchanges_;  // by stage
  std::vector<MessageCost> messages_;
  layout::PipelineCosts costs_;
  std::vector<ChunkMemory> memory_;
};

}  // namespace

Result<Estimate> price_pipelined(const RankModel& model, const Way& way, const Hardware& hardware) {
  MUSTER_ASSIGN(StagedModel staged, on_stages(model, way));
  return Pipelined(model, way, hardware, std::move(staged)).price();
}

}  // namespace muster::plan
