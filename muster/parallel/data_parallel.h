#pragma once
// Synchronous data parallelism: every rank holds the whole model, computes its slices of the global
// batch, and applies the same summed gradient. In ordered mode each slice is a unit of its own and
// the sums follow the fixed tree, so the bits do not depend on lanes or ranks; in fast mode each
// lane runs its slices as one batch and any order of summation is allowed. PyTorch DDP (Li et al.,
// VLDB 2020) for buckets and overlap; VirtualFlow (Or et al., MLSys 2022) and EasyScale (Li et al.,
// SC 2023) for slices.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/models/model.h"
#include "muster/optim/optimizer.h"
#include "muster/parallel/gradient_exchange.h"
#include "muster/parallel/lane_model.h"
#include "muster/parallel/lanes.h"
#include "muster/parallel/slice_backup.h"
#include "muster/parallel/strategy.h"
#include "muster/parallel/unit_sums.h"

namespace muster::parallel {

struct DataParallelOptions {
  bool ordered = true;
  std::int32_t virtual_workers = 8;
  std::int32_t lanes = 1;
  std::int64_t micro_batch_size = 0;  // most samples of one pass; 0: no limit
  double max_grad_norm = 0;           // 0: no clipping
  std::uint64_t seed = 0;
  BucketSizes bucket_sizes{256 << 10, 1 << 20};
  comm::OpOptions op = {};
  bool elastic = false;  // keep the sums of a step until it is committed; ordered mode only
  bool backup = false;   // who waits computes slices for others; ordered mode only
};

class DataParallel final : public Strategy {
 public:
  // `model` is initialised alike on every rank; the strategy owns it from here. It steps once it
  // has entered a generation.
  DataParallel(std::unique_ptr<models::Model> model, std::unique_ptr<optim::Optimizer> optimizer,
               DataParallelOptions options, Clock& clock);

  Result<StepReport> step(const StepInput& input) override;
  Status evaluate(const data::StepBatch& batch, std::span<EvaluationTotals> by_slice) override;
  Result<EvaluationTotals> combine(std::span<const EvaluationTotals> by_slice) override;
  std::vector<StateSlice> model_state() override;
  std::vector<StateSlice> optimizer_state() override;
  void set_optimizer_steps(std::int64_t steps) override { optimizer_->set_steps(steps); }
  Status enter(std::shared_ptr<comm::Communicator> communicator,
               const comm::LeafOwners& owners) override;
  std::optional<Step> kept() const override { return kept_step_; }
  void fall_behind() override;
  bool behind() const noexcept override { return behind_; }
  Status catch_up() override;

  // Before it enters a generation whose other ranks would wait for its first, slower step: runs the
  // batch's first slice, and nothing comes of it.
  Status warm_up(const data::StepBatch& batch);

  optim::Optimizer& optimizer() noexcept { return *optimizer_; }
  models::Model& model() const noexcept { return lanes_.front()->model(); }
  std::int32_t lanes() const noexcept { return pool_.size(); }

 private:
  struct Unit {
    std::int32_t index;      // in the tree; in fast mode the lane
    SliceIndex first_slice;  // names the unit's random numbers
    Examples examples;       // undefined inputs: no samples
    data::RollLimbs roll{};  // of its slices
  };
  struct Update {
    double learning_rate = 1;
    double divisor = 1;                  // of the gradients
    std::vector<at::Tensor> gradients;   // of parameters
    std::vector<at::Tensor> statistics;  // of the batch
  };
  std::vector<Unit> units_of(const data::StepBatch& batch) const;
  bool keeps_in(const comm::Group& group) const noexcept {
    return options_.ordered && options_.elastic && group.size > 1;
  }
  void keep(Step step);
  Status run_unit(LaneModel& lane, const Unit& unit, const StepInput& input, bool first,
                  StepTimes& times);
  Status compute(const StepInput& input, StepReport& report);
  Status run_lane(std::int32_t lane, const std::vector<Unit>& units, std::atomic<std::size_t>& next,
                  const StepInput& input, StepTimes& times);
  void offer(const std::vector<Unit>& units, const StepInput& input);
  Status help(const StepInput& input);
  Status compute_for(const Loan& loan, const StepInput& input);
  static Status check_roll(const StepInput& input, std::span<const float> extras);
  Status check_and_clip(const StepInput& input, StepReport& report, double& divisor);
  Update update_of(double learning_rate, double divisor) const;
  Status apply(const Update& update);

  const DataParallelOptions options_;
  Clock& clock_;
  const std::unique_ptr<optim::Optimizer> optimizer_;
  LanePool pool_;
  std::vector<std::unique_ptr<LaneModel>> lanes_;
  std::vector<std::string> names_;  // of parameters, in the model's order

  // Of the present generation:
  std::shared_ptr<comm::Communicator> communicator_;
  std::unique_ptr<GradientExchange> exchange_;
  std::vector<at::Tensor> gradients_;  // of parameters, over the exchange's sums
  std::unique_ptr<SliceBackup> backup_;
  std::optional<UnitSums> unit_sums_;  // with a backup

  KeptSums kept_;
  std::optional<Step> kept_step_;

  bool behind_ = false;
  std::vector<Update> missed_;
};

}  // namespace muster::parallel
