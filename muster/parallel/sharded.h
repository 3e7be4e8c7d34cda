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
// Before it has entered a generation it holds the whole optimizer state, and the whole model, from
// which enter() keeps this rank's part. A rank that dies takes its shard with it, so the membership
// is fixed.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"
#include "muster/models/model.h"
#include "muster/optim/cells.h"
#include "muster/optim/norm_scaled.h"
#include "muster/optim/optimizer.h"
#include "muster/parallel/gather_state.h"
#include "muster/parallel/shard_plan.h"
#include "muster/parallel/slice_strategy.h"
#include "muster/parallel/weight_shards.h"

namespace muster::parallel {

class Sharded final : public SliceStrategy {
 public:
  // `model` is initialised alike on every rank; the strategy owns it from here. Fails where the
  // optimizer cannot be made.
  static Result<std::unique_ptr<Sharded>> create(std::unique_ptr<models::Model> model,
                                                 optim::CreateOptimizer create_optimizer,
                                                 SliceOptions options, Clock& clock);

  Result<StepReport> step(const StepInput& input) override;
  // Another number of ranks than in the generation before: kUnavailable.
  Status enter(std::shared_ptr<comm::Communicator> communicator,
               const comm::LeafOwners& owners) override;
  std::vector<StateSlice> model_state() override;
  std::vector<StateSlice> optimizer_state() override;
  Result<State> gather_state(Rank to) override;
  bool holds_all() const override { return !trained_shards_; }
  std::vector<StateSlice> replicated_state() override;
  void set_optimizer_steps(std::int64_t steps) override { optimizer_->set_steps(steps); }
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
  bool deals_in_turns() const override { return options().shard_gradients; }

  // Nobody joins beside the training.
  void fall_behind() override;
  bool behind() const noexcept override { return false; }
  Status catch_up() override { return ok(); }
  Status use_average(bool average) override;

 private:
  Sharded(std::unique_ptr<models::Model> model, optim::CreateOptimizer create_optimizer,
          SliceOptions options, Clock& clock);
  ShardPlan plan_for(std::int32_t ranks);
  std::size_t parameter_of(std::int32_t slot) const;
  at::Tensor rows_of(const at::Tensor& whole, const ShardPiece& piece) const;
  Result<std::unique_ptr<optim::Optimizer>> optimizer_of(const std::vector<ShardPiece>& pieces,
                                                         const std::vector<at::Tensor>& rows);
  std::map<std::string, const ShardPiece*> by_name(const std::vector<ShardPiece>& pieces) const;
  std::vector<at::Tensor> rows_in_model(const std::vector<ShardPiece>& pieces) const;
  Status hold(ShardPlan plan, Rank rank);
  void cut_weights(const ShardPlan& plan, Rank rank);
  Result<std::unique_ptr<WeightGathers>> make_gathers(comm::Communicator& communicator) const;
  void lay_over_sums();
  std::span<float> sum_of(const ShardPiece& piece);
  Result<std::vector<double>> squared_norms();
  std::ptrdiff_t first_cell_of(const ShardPiece& piece) const;  // among those of all parameters
  Result<std::vector<double>> sum_by_parameter(std::vector<double> by_cell, std::string_view label);
  Status update(double learning_rate, double divisor);
  Status update_pieces(double divisor);
  const SliceOptions& options() const noexcept;
  std::vector<std::string> state_names() const;
  Status use_average_of_all();
  Status share(const std::vector<at::Tensor>& rows);
  std::uint64_t shared_bytes() const;
  Status share_by_bucket(const std::vector<at::Tensor>& rows);
  Status share_at_once(const std::vector<at::Tensor>& rows);
  Status update_scaled(optim::NormScaled& optimizer, double divisor);
  comm::OpOptions op_for(std::string_view label);
  std::vector<at::Tensor> state_of(const std::vector<ShardPiece>& pieces,
                                   optim::Optimizer& whole) const;

  const optim::CreateOptimizer create_;
  std::vector<optim::Cells> cells_;      // by parameter
  std::vector<std::size_t> first_cell_;  // by parameter, among those of all; last: their number

  const BucketLayout layout_;
  ShardPlan plan_;
  Rank rank_{0};
  std::vector<ShardPiece> pieces_;     // of this rank
  std::vector<at::Tensor> rows_;       // of the parameters, by piece
  std::vector<at::Tensor> gradients_;  // over the exchange's sums, by piece
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<at::Tensor> trained_;  // parameters, while the model holds the average: whole ones,
                                     // or with trained_shards_ rows
  // With shard_weights, once it has entered a generation:
  std::unique_ptr<const WeightShards> trained_shards_, frozen_shards_;
  GatheredState gathered_model_, gathered_optimizer_;  // for a checkpoint, until the next update
};

}  // namespace muster::parallel
