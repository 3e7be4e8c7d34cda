#include "muster/plan/rank_messages.h"

#include <algorithm>

#include "muster/base/round_up.h"
#include "muster/plan/traffic.h"

namespace muster::plan {
namespace {

using Kind = RankMessage::Kind;
// As parallel/tensor/tensor_ranks.cc and parallel/context/context_ranks.cc ask for it.
Traffic traffic_for(const RankMessage& message, const Way& way, comm::Wire wire) {
  const auto count = static_cast<std::int64_t>(message.bytes / kFloat);
  const std::int32_t ranks = way.together();
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

// Those of one pass, in the end together.
std::vector<RankMessage> messages_of(const CutProfile& cut, const Way& way) {
  std::vector<RankMessage> messages = cut.pass.loss_messages;
  const auto add = [&](const std::vector<RankMessage>& more) {
    messages.insert(messages.end(), more.begin(), more.end());
  };
  for (std::size_t b = 0; b < cut.pass.blocks.size(); ++b) {
    const BlockPass& block = cut.pass.blocks[b];
    add(block.forward_messages);
    add(block.backward_messages);
    if (b < way.recomputed.size() && way.recomputed[b]) add(block.forward_messages);
  }
  return messages;
}

}  // namespace

MessageCost message_cost(const CutProfile& cut, const Way& way, const Hardware& hardware) {
  std::int64_t samples = 0, passes = 0;
  const Share slices = even_share(way.slices, way.replicas(), 0);
  for (auto slice = slices.begin; slice < slices.end; ++slice) {
    const std::int64_t own = way.samples_of(static_cast<std::int32_t>(slice));
    samples += own;
    passes += ceil_div(own, way.micro_batch);
  }
  const auto measured = static_cast<std::uint64_t>(cut.pass.samples);
  MessageCost cost;
  for (const RankMessage& message : messages_of(cut, way)) {
    const Traffic traffic = traffic_for(message, way, hardware.wire);
    cost.bytes += message.bytes * static_cast<std::uint64_t>(samples) / measured;
    cost.sent += static_cast<std::uint64_t>(traffic.sent * samples) * kFloat / measured;
    cost.largest = std::max(cost.largest, message.bytes);
    cost.time += passes * time_of(traffic, kFloat, hardware.link);
  }
  if (!cut.sequence || cut.whole == 0) return cost;
  const RankMessage gradients{Kind::kSum, static_cast<std::uint64_t>(cut.whole) * kFloat};
  const Traffic traffic = traffic_for(gradients, way, hardware.wire);
  cost.bytes += gradients.bytes;
  cost.sent += static_cast<std::uint64_t>(traffic.sent) * kFloat;
  cost.time += time_of(traffic, kFloat, hardware.link);
  return cost;
}

}  // namespace muster::plan
