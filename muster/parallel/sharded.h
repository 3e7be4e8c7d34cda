#pragma once
// ZeRO (Rajbhandari et al., SC 2020): data parallelism in which each rank keeps the optimizer's
// state of its own shard of the parameters only, gets the summed gradient of that shard, updates
// it, and gets everybody else's (all-gather). Stage 1: ranks hold whole gradients, which are
// reduced and scattered once a step: the bytes of an all-reduce. Stage 2
// (SliceOptions::shard_gradients): those of every slice by themselves, bucket by bucket, and nobody
// holds more than its shard. Stage 3 (SliceOptions::shard_weights): nor of the parameters, frozen
// ones as well; a block's are gathered for as long as it computes (weight_gathers.h), instead of
// all after the update. In ordered mode the same bits as plain data parallelism: shards are cut at
// borders of cells, in which norms are summed as well (optim/cells.h).
//
// There may be several replicas, whose ranks keep the same shards (hybrid sharding, as in FSDP:
// Zhao et al., VLDB 2023): gradients are shared out and weights gathered within each, and of every
// shard the replicas' sums are added up, along the same tree.
//
// Before it has entered a generation it holds the whole optimizer state, and the whole model, from
// which enter() keeps this rank's part. A rank that dies takes its shard with it, so another one
// takes its place.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"
#include "muster/models/model.h"
#include "muster/optim/optimizer.h"
#include "muster/parallel/gather_state.h"
#include "muster/parallel/held_weights.h"
#include "muster/parallel/peers.h"
#include "muster/parallel/sharded_optimizer.h"
#include "muster/parallel/slice_strategy.h"
#include "muster/parallel/summed_shards.h"

namespace muster::parallel {

class Sharded final : public SliceStrategy {
 public:
  // `model` is initialised alike on every rank; the strategy owns it from here. `shards`: how many
  // there are, a divisor of the number of ranks; none: one for each rank. Fails where the optimizer
  // cannot be made.
  static Result<std::unique_ptr<Sharded>> create(std::unique_ptr<models::Model> model,
                                                 optim::CreateOptimizer create_optimizer,
                                                 SliceOptions options, Clock& clock,
                                                 std::optional<std::int32_t> shards = {});

  Result<StepReport> step(const StepInput& input) override;
  // Another number of ranks than in the generation before: kUnavailable.
  Status enter(std::shared_ptr<comm::Communicator> communicator,
               const comm::LeafOwners& owners) override;
  std::vector<StateSlice> model_state() override;
  std::vector<StateSlice> optimizer_state() override;
  Result<State> gather_state(Rank to) override;
  bool holds_all() const override { return !weights_; }
  std::int32_t part_of(Rank rank) const override {
    return shards_ ? to_int(rank) % *shards_ : to_int(rank);  // replicas are outermost
  }
  std::vector<StateSlice> replicated_state() override;
  void loaded(std::int64_t steps) override;
  std::uint64_t optimizer_bytes(std::int32_t ranks) override;
  std::uint64_t gradient_bytes(std::int32_t ranks) override;
  std::uint64_t weight_bytes(std::int32_t ranks) override;
  // The most that a step's sums have held on this rank, and besides those the buckets on their way.
  struct GradientMemory {
    std::uint64_t sums = 0;
    std::uint64_t window = 0;
  };
  GradientMemory measured_gradients();  // with shard_gradients, in a generation
  // Of the parameters: this rank's shards, and the most that was whole at a time besides.
  struct WeightMemory {
    std::uint64_t shards = 0;
    std::uint64_t whole = 0;
    std::uint64_t whole_now = 0;
  };
  WeightMemory measured_weights() const;  // with shard_weights, in a generation
  std::int32_t ranks_in_turns(std::int32_t ranks) const override {
    return options().shard_gradients ? shards_of(ranks) : 1;
  }

  // Nobody joins beside the training.
  void fall_behind() override;
  bool behind() const noexcept override { return false; }
  Status catch_up() override { return ok(); }
  Status use_average(bool average) override;

 private:
  Sharded(std::unique_ptr<models::Model> model, SliceOptions options, Clock& clock,
          std::optional<std::int32_t> shards);
  bool is_cut() const noexcept { return place_.has_value(); }
  std::int32_t shards_of(std::int32_t ranks) const { return shards_.value_or(ranks); }
  Status cut(const comm::Group& group);
  Status share_gradients(const comm::LeafOwners& owners);
  Status update(double learning_rate, double divisor);
  const SliceOptions& options() const noexcept;
  std::vector<std::string> state_names() const;
  Status use_average_of_all();
  std::vector<at::Tensor> held();
  void use_trained();
  comm::OpOptions op_for(std::string_view label);

  const std::optional<std::int32_t> shards_;
  const BucketLayout layout_;
  const OnLanes on_lanes_;
  std::unique_ptr<ShardedOptimizer> optimizer_;
  std::vector<at::Tensor> trained_;  // parameters, while the model holds the average: whole ones,
                                     // or with weights_ rows
  std::optional<MeshPlace> place_;   // once it has entered a generation
  std::unique_ptr<HeldWeights> weights_;  // with shard_weights, likewise

  // Of the present generation:
  std::shared_ptr<comm::Communicator> communicator_;  // of all ranks
  Peers peers_;
  std::unique_ptr<SummedShards> summed_;
  GatheredState gathered_model_, gathered_optimizer_;  // for a checkpoint, until the next update
};

}  // namespace muster::parallel
