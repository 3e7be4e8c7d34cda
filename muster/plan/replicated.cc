#include "muster/plan/replicated.h"

#include <algorithm>

#include "muster/base/round_up.h"
#include "muster/base/share.h"
#include "muster/plan/checkpoint_cost.h"
#include "muster/plan/rank_messages.h"
#include "muster/plan/shard_cost.h"

namespace muster::plan {
namespace {

class Replicated {
 public:
  Replicated(const RankModel& model, const Way& way, const Hardware& hardware)
      : model_(model), way_(way), hardware_(hardware), part_(model.here, model.pass, way) {
    part_.add(all_blocks(model.here));
    const auto most = static_cast<std::int32_t>(even_share(way.slices, way.replicas(), 0).size());
    lanes_ = std::min(way.lanes, most);
    at_once_ = way.slices_meet ? most : lanes_;
    slower_ = stretch(static_cast<double>(lanes_) * way.workers, hardware);
    rounds_ = ceil_div(most, lanes_);
  }

  Estimate price() const {
    Estimate result;
    result.time.computing = scaled((part_.cost().forward + backward()) * passes(), slower_);
    result.time.update =
        scaled(update_of(model_.here, part_.trained(), lanes_) / way_.shard_count(), slower_) +
        guard();
    const auto shares = static_cast<std::uint64_t>(way_.shard_count());
    result.memory = {.weights = part_.weights(),
                     .optimizer = ceil_div(part_.optimizer(), shares),
                     .process = model_.whole.process_bytes};
    offload(way_, part_, lanes_, result.memory);
    add_passes(result.memory);
    if (way_.spread == Spread::kSharded && way_.zero_stage > 1)
      add_shards(shard_cost(model_.whole, way_, hardware_), result);
    else
      add_exchanges(result);
    if (model_.cut) add_messages(*model_.cut, result);
    return result;
  }

 private:
  Duration backward() const {
    const layout::ChunkCost cost = part_.cost();
    return cost.backward_input + cost.backward_weight;
  }
  // Of two replicas each reads its weights, and what nobody else has of the optimizer's state,
  // after every update and before the next one (train/replica_guard.h).
  Duration guard() const {
    if (!way_.compares_replicas || way_.replicas() != 2) return {};
    const auto weights = static_cast<double>(part_.trained()) * kFloat;
    const double own = way_.shard_count() > 1 ? static_cast<double>(part_.optimizer()) / 2 : 0;
    const auto all = static_cast<double>(model_.whole.trained_parameters()) * kFloat;
    if (all == 0) return {};
    return scaled(model_.whole.checksum,
                  2 * (weights + own) / all * stretch(way_.workers, hardware_));
  }
  std::int64_t passes() const { return std::int64_t{rounds_} * way_.passes(); }

  // Lanes are threads, each with a heap of its own; so are slices that meet.
  void add_passes(MemoryUse& memory) const {
    const auto lanes = static_cast<std::uint64_t>(at_once_);
    const BriefMemory hand = part_.in_hand();
    const PassMemory passes =
        pass_memory((part_.kept() + part_.recomputing()) * lanes,
                    {.stays = hand.stays * lanes, .goes_back = hand.goes_back * lanes},
                    counting_whole(model_, way_));
    memory.activations = passes.activations;
    memory.checkpoint = checkpoint_bytes(
        model_.whole, way_, state_held_whole(model_.whole, way_, whole_here()), passes.given_back);
  }
  std::int64_t whole_here() const { return model_.cut ? model_.cut->whole : 0; }

  static void count(const ExchangeCost& exchange, Estimate& result) {
    result.memory.gradients += exchange.held - exchange.kept;
    result.memory.buffers += exchange.kept + exchange.seen;
    result.bytes_on_wire += exchange.bytes;
    result.sent += exchange.sent;
  }

  void add_exchanges(Estimate& result) const {
    for (const ExchangeCost& exchange : exchanges_of(part_, way_, hardware_)) {
      count(exchange, result);
      result.time.communication += exposed(exchange, scaled(backward(), slower_)) + exchange.gather;
    }
  }

  // Every pass hides what it has to tell behind the next ones, and a block the next one's weights.
  void add_shards(const ShardCost& cost, Estimate& result) const {
    count(cost.gradients, result);
    result.memory.buffers += cost.window;
    if (way_.zero_stage > 2) result.memory.weights = cost.weights + part_.statistics();
    if (way_.workers == 1) return;
    result.time.communication =
        exposed(cost.gradients, scaled(backward() * passes(), slower_)) + cost.gradients.gather +
        cost.first_fetch +
        std::max(Duration{}, cost.fetch - cost.first_fetch - result.time.computing);
  }

  // What ranks of a replica tell each other in the middle of every pass.
  void add_messages(const CutProfile& cut, Estimate& result) const {
    const MessageCost messages =
        message_cost(cut, {all_blocks(model_.here)}, cut.whole, way_, hardware_);
    result.time.communication += messages.passes + messages.after;
    result.memory.buffers += messages.largest;
    result.bytes_on_wire += messages.bytes;
    result.sent += messages.sent;
  }

  const RankModel& model_;
  const Way& way_;
  const Hardware& hardware_;
  Part part_;
  std::int32_t lanes_ = 1;
  std::int32_t at_once_ = 1;  // passes that are in memory
  double slower_ = 1;
  std::int32_t rounds_ = 1;
};

}  // namespace

Estimate price_replicated(const RankModel& model, const Way& way, const Hardware& hardware) {
  return Replicated(model, way, hardware).price();
}

}  // namespace muster::plan
