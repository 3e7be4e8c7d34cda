#pragma once
// The gradients of ZeRO stage 2 (Rajbhandari et al., SC 2020): no rank ever holds whole ones. What
// a unit (a slice of the batch) has in a bucket goes to the owners of its shards as soon as
// backward has filled the bucket, and is forgotten; an owner sums its shard of all units along the
// fixed tree, so the bits are those of every other way.
//
// A rank is never more than a few buckets ahead of the slowest one, so that nobody has to keep much
// of what came too early: a lane that is further waits, unless it is the one that others wait for.
// Least is held where neighbouring units are computed at the same time
// (Strategy::ranks_in_turns()).
//
// Where there are replicas, each does so with its own units, and then the owners of a shard add up
// what their replicas found, along the same tree.
//
// Threads: add() from several lanes at once, each unit by one lane; everything else by one thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/parallel/gradient_sink.h"
#include "muster/parallel/shard_traffic.h"

namespace muster::parallel {

class ShardExchange final : public GradientSink {
 public:
  // `notes` gets the first slot, and outlives this. Collective.
  static Result<std::unique_ptr<ShardExchange>> create(
      const std::shared_ptr<comm::Communicator>& communicator, GradientSink& notes,
      const ShardExchangeOptions& options, Clock& clock);
  ~ShardExchange() override;

  // A new step; `passes` of this rank's units. Collective.
  Status begin(std::span<const std::int64_t> passes);
  void add(std::int32_t unit, std::int32_t slot, std::span<const float> values, std::int32_t pass,
           std::int32_t passes) override;
  void give_up(const Error& why);  // no more will be added, and nobody waits; any thread
  // Waits for the sums of this rank's shards, and until what it has sent has left.
  Status finish();

  // Of the step that has begun: how many units this rank has in each turn (shard_turns.h), and the
  // turn of one of them. Any thread.
  std::vector<std::int32_t> own_by_turn() const { return traffic_->own_by_turn(); }
  std::size_t turn_of(std::int32_t unit, std::int32_t pass) const {
    return traffic_->turn_of(unit, pass);
  }

  // This rank's shard of the sum in `bucket`; from finish() to begin(), in the same place always.
  std::span<float> sum(std::int32_t bucket);

  // Makes whole buckets of what ranks hold in shards, a few at a time: `put` writes this rank's
  // shard of a bucket, `take` reads the whole. Collective. With options.gathers.
  using Put = std::function<void(std::int32_t bucket, std::span<float> shard)>;
  using Take = std::function<void(std::int32_t bucket, std::span<const float> whole)>;
  Status gather(const Put& put, const Take& take);

  std::uint64_t bytes() const;      // sent in the last step
  std::uint64_t sum_bytes() const;  // the most that sums have held at a time
  // And besides those: buckets being filled, on their way and arriving.
  std::uint64_t window_bytes() const;

 private:
  ShardExchange(GradientSink& notes, std::shared_ptr<comm::Communicator> communicator,
                std::shared_ptr<ShardTraffic> traffic, std::vector<comm::Buffer> rows);
  TensorView summands(std::size_t bucket);
  Status sum_copies();

  GradientSink& notes_;
  const std::shared_ptr<comm::Communicator> communicator_;
  const std::shared_ptr<ShardTraffic> traffic_;  // shared with what is under way
  const std::vector<comm::Buffer> rows_;         // each as long as the longest bucket
  std::uint64_t reduced_ = 0;                    // bytes handed over for that in the last step
};

}  // namespace muster::parallel
