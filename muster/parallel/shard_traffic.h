#pragma once
// One rank's side of what shard_exchange.h does in a step: units' gradients bucket by bucket to the
// owners of their shards, and this rank's shard of everybody's into its sums. Members are as
// ShardExchange has them; add() is for all slots but the first.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/layout/shard_turns.h"
#include "muster/parallel/bucket_layout.h"
#include "muster/parallel/shard_sums.h"

namespace muster::parallel {

using layout::ShardTurn;

struct ShardExchangeOptions {
  BucketLayout layout;  // its first slot, alone in the first bucket, is somebody else's business
  std::vector<std::shared_ptr<const comm::Shards>> shards;  // by bucket; of the first: none
  // Of units; in fast mode those of slices, of which a lane makes one. kNoRank: of other replicas.
  comm::LeafOwners owners;
  bool ordered = true;
  bool gathers = true;  // ShardExchange::gather() is wanted
  std::int32_t lanes = 1;
  bool several_passes = false;  // units may have more than one
  comm::OpOptions op = {};
  // Where there are replicas: the ranks that own the same shards, one of each, and who of them has
  // which units; in fast mode no tree.
  std::shared_ptr<comm::Communicator> copies = nullptr;
  std::shared_ptr<const comm::SumTree> tree = nullptr;
};

// What arrives is handled on the communicator's thread. It holds this state, which therefore must
// not hold the communicator.
class ShardTraffic : public std::enable_shared_from_this<ShardTraffic> {
 public:
  ShardTraffic(const std::shared_ptr<comm::Communicator>& communicator,
               ShardExchangeOptions options, comm::LeafOwners owners, std::int32_t width,
               Clock& clock);

  Status begin(std::span<const std::int64_t> passes);
  void add(std::int32_t unit, std::int32_t slot, std::span<const float> values, std::int32_t pass,
           std::int32_t passes);
  void give_up(const Error& why);
  Status finish();

  const ShardExchangeOptions& options() const noexcept { return options_; }
  std::vector<std::int32_t> own_by_turn() const;
  std::size_t turn_of(std::int32_t unit, std::int32_t pass) const;
  std::span<float> sum(std::size_t bucket) { return sums_.sum(bucket); }
  std::span<float> rows(std::size_t bucket) { return sums_.rows(bucket); }  // after finish()
  std::uint64_t bytes() const;
  std::uint64_t sum_bytes() const;
  std::uint64_t window_bytes() const;

 private:
  // What a unit has in a bucket, filled by its lane.
  struct Staged {
    std::vector<float> floats;
    std::vector<std::byte> narrow = {};  // the same in 16 bits, where it travels so
    std::int32_t slots_left = 0;
    bool ready = false;    // guarded by the state's mutex
    bool dropped = false;  // nobody waits for it
  };
  using Later = std::vector<std::function<void()>>;                  // to do once the mutex is free
  using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  // unit, pass, bucket
  using Lock = std::unique_lock<std::mutex>;
  struct Item {  // what is sent at a time: a bucket of a turn
    const ShardTurn& turn;
    std::int32_t bucket;
  };
  struct Stream {  // what comes from one rank
    std::int64_t item = 0;
    std::size_t unit = 0;  // of the item's
    std::vector<std::byte> bytes;
    std::vector<float> wide;
  };

  std::int64_t items() const { return static_cast<std::int64_t>(turns_.size()) * (buckets() - 1); }
  std::int64_t buckets() const { return static_cast<std::int64_t>(options_.layout.sizes.size()); }
  Item item_at(std::int64_t index) const {
    const std::int64_t each = buckets() - 1;
    return {turns_[static_cast<std::size_t>(index / each)],
            static_cast<std::int32_t>(index % each) + 1};
  }
  std::int32_t number_of(std::int32_t unit) const {  // of a lane's among all
    return options_.ordered ? unit : own_[static_cast<std::size_t>(unit)];
  }
  Rank owner(std::int32_t unit) const { return owners_[static_cast<std::size_t>(unit)]; }
  std::int64_t passes_of(std::int32_t unit) const {
    return passes_[static_cast<std::size_t>(unit)];
  }
  // In which a unit's gradients travel: what several passes add up to is rounded at the end only.
  DType dtype_of(std::int32_t unit, std::int32_t bucket) const {
    return passes_of(unit) > 1 ? DType::kF32
                               : options_.layout.dtypes[static_cast<std::size_t>(bucket)];
  }
  const comm::Shards& shards(std::int32_t bucket) const {
    return *options_.shards[static_cast<std::size_t>(bucket)];
  }
  std::size_t piece_bytes(std::int32_t unit, std::int32_t bucket, Rank to) const {
    return static_cast<std::size_t>(shards(bucket).count_of(to)) * size_of(dtype_of(unit, bucket));
  }
  comm::OpOptions op(Duration timeout, std::int32_t unit, std::int32_t bucket) const;

  Status exchange_passes(std::span<const std::int64_t> own);
  void plan();
  Staged& stage(const Key& key);
  bool must_wait(std::int32_t unit) const;
  bool own_ready(const Item& item) const;
  void advance(Later& later);
  void send(const Item& item, Later& later);
  void send_unit(std::int32_t unit, const Item& item, Later& later);
  void release(Staged& staged);
  void listen(Rank from, Later& later);
  bool seek(Rank from, Stream& stream) const;
  void arrived(Rank from, const Status& status);
  void take_in(Rank from, Later& later);
  void stop(const Error& why);
  Status wait_in_step(Lock& lock, const std::function<bool()>& over);
  Error nothing_came() const;

  const std::weak_ptr<comm::Communicator> communicator_;
  const comm::Group group_;
  const std::vector<Rank> members_;  // what all call its ranks, as errors do
  const ShardExchangeOptions options_;
  const comm::LeafOwners owners_;  // by unit, of all ranks
  const std::int32_t width_;       // units of a rank in a turn
  std::vector<std::int32_t> own_;  // this rank's units
  Clock& clock_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  ShardSums sums_;  // guarded by mutex_ in a step, as all below
  std::vector<std::int64_t> passes_;
  std::vector<ShardTurn> turns_;
  std::map<Key, std::shared_ptr<Staged>> staged_;
  std::vector<std::vector<float>> spare_;  // of those that have left
  std::int64_t ready_ = 0;                 // of staged_
  std::int64_t next_ = 0;                  // item to send
  std::int64_t leaving_ = 0;
  std::vector<std::int32_t> missing_;  // pieces, by item
  std::int64_t through_ = 0;           // items of which everybody's pieces are here
  std::vector<Stream> streams_;        // by rank
  std::optional<Error> failure_;
  TimePoint progress_{};
  std::uint64_t sent_ = 0;
  std::uint64_t window_ = 0, most_window_ = 0;  // bytes staged and leaving
};

}  // namespace muster::parallel
