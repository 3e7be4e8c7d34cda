#include "muster/plan/rank_messages.h"

#include <algorithm>

#include "muster/base/round_up.h"
#include "muster/plan/traffic.h"

namespace muster::plan {
namespace {

using Kind = RankMessage::Kind;
// Holders of experts exchange rows and tell each other nothing else.
std::int32_t ranks_that_tell(const RankMessage& message, const Way& way) {
  return message.kind == Kind::kExchange && way.expert > 1 ? way.expert : way.together();
}

// As parallel/tensor/tensor_ranks.cc, parallel/context/context_ranks.cc and
// parallel/expert/expert_ranks.cc ask for it.
Traffic traffic_for(const RankMessage& message, const Way& way, comm::Wire wire) {
  const auto count = static_cast<std::int64_t>(message.bytes / kFloat);
  const std::int32_t ranks = ranks_that_tell(message, way);
  const comm::SumTree tree(ranks, ranks);
  const Rank first{0};
  switch (message.kind) {
    case Kind::kSum:
      return traffic_of(comm::ordered_all_reduce_schedule(tree, first, count));
    case Kind::kSumOwn:
      return traffic_of(
          comm::ordered_reduce_scatter_schedule(tree, first, even_shards(count, ranks)));
    case Kind::kExchange:
      return {.sent = count, .received = count, .messages = ranks - 1};
    case Kind::kPassOn:
      return {.sent = count, .received = count, .messages = 1};
    case Kind::kGather:
      break;
  }
  const comm::Method method = comm::choose_method(
      {comm::Collective::Kind::kAllGather, count * ranks, static_cast<std::size_t>(kFloat)}, {},
      comm::Topology::apart(ranks), comm::default_costs(wire));
  return traffic_of(comm::all_gather_schedule(method.algorithm, {first, ranks}, count));
}

bool is_recomputed(std::size_t block, const Way& way) {
  return block < way.recomputed.size() && way.recomputed[block];
}

// Those of one pass; of the loss by who has the last block.
std::vector<RankMessage> messages_of(const CutProfile& cut,
                                     const std::vector<layout::BlockRange>& blocks,
                                     const Way& way) {
  std::vector<RankMessage> messages;
  const auto add = [&](const std::vector<RankMessage>& more) {
    messages.insert(messages.end(), more.begin(), more.end());
  };
  for (const layout::BlockRange& range : blocks)
    for (auto b = static_cast<std::size_t>(range.begin); b < static_cast<std::size_t>(range.end);
         ++b) {
      const BlockPass& block = cut.pass.blocks[b];
      add(block.forward_messages);
      add(block.backward_messages);
      if (is_recomputed(b, way)) add(block.forward_messages);
      if (b + 1 == cut.pass.blocks.size()) add(cut.pass.loss_messages);
    }
  return messages;
}

Duration time_of_all(const std::vector<RankMessage>& messages, const Way& way,
                     const Hardware& hardware) {
  Duration time{};
  for (const RankMessage& message : messages)
    time += time_of(traffic_for(message, way, hardware.wire), kFloat, hardware.link);
  return time;
}

// Gradients of tensors that all have whole, where each has some positions: summed over the shards,
// of which each has some of them, and over the ranks (parallel/together.cc).
void add_whole_gradients(std::int64_t whole, const Way& way, const Hardware& hardware,
                         MessageCost& cost) {
  const RankMessage gradients{RankMessage::Kind::kSum, static_cast<std::uint64_t>(whole) * kFloat};
  const Traffic traffic = traffic_for(gradients, way, hardware.wire);
  cost.bytes += gradients.bytes;
  cost.sent += static_cast<std::uint64_t>(traffic.sent) * kFloat;
  cost.after += time_of(traffic, kFloat, hardware.link);
  if (way.shard_count() == 1) return;
  const Traffic among_shards = traffic_of(
      comm::all_reduce_schedule(comm::Algorithm::kRing, {Rank{0}, way.shard_count()}, whole));
  cost.sent += static_cast<std::uint64_t>(among_shards.sent) * kFloat;
  cost.after += time_of(among_shards, kFloat, hardware.link);
}

}  // namespace

MessageCost message_cost(const CutProfile& cut, const std::vector<layout::BlockRange>& blocks,
                         std::int64_t whole, const Way& way, const Hardware& hardware) {
  std::int64_t samples = 0, passes = 0;
  const Share slices = even_share(way.slices, way.replicas(), 0);
  for (auto slice = slices.begin; slice < slices.end; ++slice) {
    const std::int64_t own = way.samples_of(static_cast<std::int32_t>(slice));
    samples += own;
    passes += ceil_div(own, way.micro_batch);
  }
  const auto measured = static_cast<std::uint64_t>(cut.pass.samples);
  const std::vector<RankMessage> messages = messages_of(cut, blocks, way);
  MessageCost cost;
  for (const RankMessage& message : messages) {
    const Traffic traffic = traffic_for(message, way, hardware.wire);
    cost.bytes += message.bytes * static_cast<std::uint64_t>(samples) / measured;
    cost.sent += static_cast<std::uint64_t>(traffic.sent * samples) * kFloat / measured;
    cost.largest = std::max(cost.largest, message.bytes);
  }
  cost.passes = passes * time_of_all(messages, way, hardware);
  if (cut.sequence && whole > 0) add_whole_gradients(whole, way, hardware, cost);
  return cost;
}

std::vector<BlockWaits> waits_of(const CutProfile& cut, const Way& way, const Hardware& hardware) {
  std::vector<BlockWaits> waits;
  for (std::size_t b = 0; b < cut.pass.blocks.size(); ++b) {
    const BlockPass& block = cut.pass.blocks[b];
    const Duration forward = time_of_all(block.forward_messages, way, hardware);
    waits.push_back({forward, time_of_all(block.backward_messages, way, hardware) +
                                  (is_recomputed(b, way) ? forward : Duration{})});
  }
  waits.back().forward += time_of_all(cut.pass.loss_messages, way, hardware);
  return waits;
}

// A part of a tensor has fewer elements than the whole.
std::int64_t whole_elements(const ModelProfile& whole, const CutProfile& cut,
                            const std::vector<layout::BlockRange>& blocks) {
  std::int64_t elements = 0;
  for (const layout::BlockRange& range : blocks)
    for (auto b = static_cast<std::size_t>(range.begin); b < static_cast<std::size_t>(range.end);
         ++b) {
      const auto &all = whole.blocks[b].trained, &here = cut.blocks[b].trained;
      for (std::size_t p = 0; p < std::min(all.size(), here.size()); ++p)
        if (all[p] == here[p]) elements += here[p];
    }
  return elements;
}

}  // namespace muster::plan
