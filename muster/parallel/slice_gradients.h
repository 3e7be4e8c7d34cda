#pragma once
// What synchronous strategies that replicate the forward pass share: this rank computes its slices
// of the global batch, on lanes, and the gradients of all ranks are summed meanwhile. In ordered
// mode each slice is a unit of its own and the sums follow the fixed tree, so the bits do not
// depend on lanes or ranks; in fast mode each lane runs its slices as one batch and any order of
// summation is allowed. Buckets and overlap: PyTorch DDP (Li et al., VLDB 2020); slices:
// VirtualFlow (Or et al., MLSys 2022) and EasyScale (Li et al., SC 2023). One thread.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/models/model.h"
#include "muster/parallel/gradient_exchange.h"
#include "muster/parallel/lane.h"
#include "muster/parallel/lanes.h"
#include "muster/parallel/shard_exchange.h"
#include "muster/parallel/slice_backup.h"
#include "muster/parallel/slice_meeting.h"
#include "muster/parallel/strategy.h"
#include "muster/parallel/unit_passes.h"
#include "muster/parallel/unit_sums.h"
#include "muster/parallel/weight_gathers.h"

namespace muster::parallel {

struct SliceOptions {
  bool ordered = true;
  std::int32_t virtual_workers = 8;
  std::int32_t lanes = 1;
  std::int64_t micro_batch_size = 0;  // most samples of one pass; 0: no limit
  double max_grad_norm = 0;           // 0: no clipping
  models::Compute compute = {};
  std::uint64_t seed = 0;
  BucketSizes bucket_sizes{256 << 10, 1 << 20};
  comm::OpOptions op = {};
  bool elastic = false;  // keep the sums of a step until it is committed; ordered mode only
  bool backup = false;   // who waits computes slices for others; ordered mode only
  // Where enter() is given shards: nobody holds more of the gradients than its own
  // (shard_exchange.h). Without `elastic` and `backup`; where the model is not on the host, with
  // one lane.
  bool shard_gradients = false;
  // Where enter() is given gathers: nobody holds more of the weights than its own and, while it
  // computes, two blocks' (weight_gathers.h). With shard_gradients.
  bool shard_weights = false;
  // Where several ranks find a part of each slice's gradients, which of them this one is: of slice
  // i leaf rank · virtual_workers + i of the tree is its own, and enter() is given the owners of
  // all size · virtual_workers leaves. One lane, ordered mode.
  models::TensorShare together = {};
  // Slices without samples have a pass as well: in passes ranks meet others. Ordered mode.
  bool runs_empty = false;
  // Batch norm takes the statistics of the whole batch: all slices of a rank are on their way at
  // once and meet those of all ranks at each such layer (slice_meeting.h), also slices without
  // samples. Whole slices, of whole models on the host. Without `elastic`: whose sums of a step
  // were kept has met the slices that are to be computed again, and would have to meet them again,
  // with what it no longer computes; and a step that breaks off almost always does so before all
  // slices have met for the last time, when nothing is summed yet. So it is taken again as a whole,
  // which has the same bits. Without `backup`: a slice by itself meets nobody.
  bool sync_batch_norm = false;
  // What a lane computes from here on, "backward of slice 3"; empty: nothing. Each lane calls it on
  // its own thread.
  std::function<void(std::int32_t lane, std::string_view pass)> computing = [](std::int32_t,
                                                                               std::string_view) {};
};

class SliceGradients {
 public:
  // `model` is initialised alike on every rank.
  SliceGradients(std::unique_ptr<models::Model> model, SliceOptions options, Clock& clock);

  // As Strategy::enter. `shards`: as ExchangeOptions has them.
  Status enter(std::shared_ptr<comm::Communicator> communicator, const comm::LeafOwners& owners,
               std::vector<std::shared_ptr<const comm::Shards>> shards = {});
  // Then, with shard_gradients: of whom each owns a shard of these; `owners` as
  // ShardExchangeOptions has them.
  struct ShardOwners {
    std::shared_ptr<comm::Communicator> ranks;
    std::vector<std::shared_ptr<const comm::Shards>> shards;
    comm::LeafOwners owners;
    std::shared_ptr<comm::Communicator> copies = nullptr;  // as ShardExchangeOptions has them
    std::shared_ptr<const comm::SumTree> tree = nullptr;
  };
  // `gathers`: with shard_weights.
  Status share_gradients(ShardOwners owners, std::unique_ptr<WeightGathers> gathers);
  std::optional<Step> kept() const noexcept { return kept_step_; }

  // All of a step but the update: the sums are there, and every sample is in them once.
  Status compute(const StepInput& input, StepReport& report);
  // Before the update: whether loss and gradients are finite, their norm, and what to divide them
  // by; nothing where they overflowed. `squares`: the squared norms of all parameters' gradients,
  // in the model's order.
  Result<std::optional<double>> check_and_clip(const StepInput& input,
                                               std::span<const double> squares,
                                               StepReport& report) const;

  // As Strategy has them. With shard_weights collective.
  Status evaluate(const data::StepBatch& batch, std::span<EvaluationTotals> by_slice);
  Result<EvaluationTotals> combine(std::span<const EvaluationTotals> by_slice);

  // Before it enters a generation whose other ranks would wait for its first, slower step: runs the
  // batch's first slice, and nothing comes of it.
  Status warm_up(const data::StepBatch& batch);

  // After compute(): what was summed, until the next step.
  GradientExchange& exchange() noexcept { return *exchange_; }
  ShardExchange& shard_exchange() noexcept { return *shard_exchange_; }  // with shard_gradients
  const WeightGathers& gathers() const noexcept { return *gathers_; }    // with shard_weights
  std::vector<at::Tensor> summed_statistics() const;  // over the sums, in the model's order

  // The exchange's slot of a parameter, and the floats of all slots, in their order.
  std::int32_t slot_of(std::size_t parameter) const noexcept;
  std::vector<std::int64_t> slot_counts() const;
  // The buckets, where enter() is given shards.
  BucketLayout bucket_layout() const;

  const SliceOptions& options() const noexcept { return options_; }
  models::Model& model() const noexcept { return lanes_.front()->model(); }
  comm::Communicator& communicator() noexcept { return *communicator_; }
  // Runs `body` for items [0, count), dealt to the lanes in ranges.
  Status on_lanes(std::size_t count, const std::function<void(std::size_t, std::size_t)>& body);
  std::int32_t lanes() const noexcept { return pool_.size(); }

 private:
  struct Unit {
    std::int32_t index;      // in the tree; in fast mode the lane
    SliceIndex first_slice;  // names the unit's random numbers
    Examples examples;       // undefined inputs: no samples
    data::RollLimbs roll{};  // of its slices
  };
  std::int32_t leaf_of(SliceIndex slice) const noexcept;
  std::vector<Unit> units_of(const data::StepBatch& batch) const;
  bool keeps_in(const comm::Group& group) const noexcept {
    return options_.ordered && options_.elastic && group.size > 1;
  }
  std::unique_ptr<Lane> make_lane(std::unique_ptr<models::Model> model) const;
  Status prepare_meetings(comm::Communicator& communicator, const comm::LeafOwners& owners,
                          std::int32_t units);
  void watch(std::int32_t lane);
  GradientSink& sink() noexcept;
  void gather_weights(std::unique_ptr<WeightGathers> gathers);
  void give_up(const Error& why);
  Status finish();
  Status begin(const std::vector<Unit>& units, const StepInput& input);
  std::vector<UnitPass> passes(const Unit& unit, const StepInput& input) const;
  Error with_source(Error not_finite) const;
  void keep(Step step);
  Status run_unit(Lane& lane, const Unit& unit, const StepInput& input, bool first,
                  StepTimes& times);
  Status reduce(const StepInput& input, StepReport& report);
  Status run_lanes(const std::vector<Unit>& units, const StepInput& input, StepTimes& times);
  Status run_units(std::int32_t lane, const std::vector<Unit>& units,
                   std::atomic<std::size_t>& next, const StepInput& input, StepTimes& times);
  Status run_lane(std::int32_t lane, const std::vector<Unit>& units, std::atomic<std::size_t>& next,
                  const StepInput& input, StepTimes& times);
  void offer(const std::vector<Unit>& units, const StepInput& input);
  Status help(const StepInput& input);
  Status compute_for(const Loan& loan, const StepInput& input);
  struct Evaluated {  // a slice on its way through the blocks
    SliceIndex slice;
    Examples examples;  // inputs: what the last block made of them
    EvaluationTotals* totals;
  };
  Status evaluate_by_block(const data::StepBatch& batch, std::span<EvaluationTotals> by_slice);
  Status evaluate_block(std::size_t block, std::vector<Evaluated>& slices);
  models::PassContext evaluation_context() const;

  const SliceOptions options_;
  Clock& clock_;
  LanePool pool_;
  std::unique_ptr<LanePool> unit_pool_;  // with sync_batch_norm, where units are more than lanes
  std::vector<std::unique_ptr<Lane>> lanes_;  // of the larger pool
  std::vector<std::string> names_;            // of parameters, in the model's order

  // Of the present generation:
  std::shared_ptr<comm::Communicator> communicator_;
  std::unique_ptr<GradientExchange> exchange_;     // with shard_gradients, of the first slot only
  std::unique_ptr<ShardExchange> shard_exchange_;  // with shard_gradients
  std::unique_ptr<WeightGathers> gathers_;         // with shard_weights
  std::unique_ptr<SliceMeeting> meeting_;          // with sync_batch_norm, where it has units
  std::unique_ptr<SliceBackup> backup_;
  std::optional<UnitSums> unit_sums_;  // with a backup

  KeptSums kept_;
  std::optional<Step> kept_step_;
};

}  // namespace muster::parallel
