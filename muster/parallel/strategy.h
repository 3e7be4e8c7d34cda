#pragma once
// Strategy: how a step is made parallel. The same model, data and trainer run under each; changing
// it is one line of the job file. A step is a transaction: success means that every rank applied
// the update; an error leaves parameters and optimizer as they were after the last committed step.
// One thread at a time.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/ids.h"
#include "muster/base/random.h"
#include "muster/base/result.h"
#include "muster/base/tensor_slice.h"
#include "muster/comm/communicator.h"
#include "muster/comm/sum_tree.h"
#include "muster/data/batch.h"
#include "muster/observe/metric.h"
#include "muster/parallel/flags.h"

namespace muster::models {
struct LossSum;
}

namespace muster::parallel {

struct StepInput {
  const data::StepBatch& batch;  // this rank's slices of the global batch
  bool finishes = false;         // only those that its kept sums (see enter()) lack
  Step step;                     // the one that will be committed
  double learning_rate;
  Flags flags;  // this rank's wishes; the report holds everybody's
  // Called before the first parameter is changed, and once more after rolled_back: whoever still
  // reads the state (an asynchronous checkpoint) finishes here. Returns how long it had to wait.
  std::function<Duration()> before_update;
  // Called where an update that had begun is undone: the state is again that before the step.
  std::function<void()> rolled_back = {};
  // Backup execution, where wanted: having waited so long for others, this rank computes slices for
  // them, whose samples it gets here.
  Duration patience{};
  std::function<Result<data::StepBatch>(SliceIndex)> load_slice = {};
  // What the loss is multiplied by before backward (optim/loss_scale.h); none: gradients that are
  // not finite are an error, not an overflow.
  std::optional<double> loss_scale = {};
  // Where wanted, called with a checksum of the summed gradients, which should be the same on every
  // rank that has the same part (part_of); an error ends the step before anything is changed. Not
  // by strategies that leave each rank its shard of the sums, or whose ranks have experts of their
  // own.
  std::function<Status(std::uint64_t checksum)> check_sums = {};
  // How long to wait for the others' sums; none: as long as for anything.
  std::optional<Duration> timeout = {};
};

struct StepTimes {
  Duration forward{};  // of a lane, on average
  Duration backward{};
  Duration computing{};              // all own slices, on all lanes: until the last backward
  Duration exposed_communication{};  // waiting for sums after the last backward
  Duration update{};
  Duration checkpoint_stall{};
};

struct StepReport {
  double loss = 0;       // mean over the global batch's targets
  double accuracy = 0;   // share of targets predicted right
  double grad_norm = 0;  // before clipping; none after an overflow
  // With a loss scale: the first tensor, in the order of backward, whose gradient is not finite.
  // All ranks have skipped the step: it is over, and nothing was updated.
  std::optional<std::string> overflow = {};
  Flags flags;  // of all ranks
  StepTimes times;
  // By this rank's buckets; besides, what it has sent of weights that are gathered in the step
  // (ZeRO 2 and 3), of activations that are summed over ranks or exchanged between them (tensor,
  // context), and of sums in which slices meet (sync_batch_norm).
  std::uint64_t bytes_reduced = 0;
  std::int32_t backups = 0;  // slices of this rank that others were sooner to compute
  // Where ranks update before all is known that decides on it: how many of a replica's have rolled
  // back what they had updated.
  std::optional<std::int32_t> rollbacks = {};
  std::vector<observe::Metric> model_metrics;  // what the model itself tells of the global batch
};

// A tensor of the state, or this rank's part of one: for checkpoints that load at any size.
using StateSlice = TensorSlice;

struct State {
  std::vector<StateSlice> model, optimizer;
};

struct EvaluationTotals {
  double loss = 0;  // sums over targets
  double correct = 0;
  double targets = 0;
  std::vector<double> measured = {};          // of the model's metrics, one by one; empty: all 0
  void add(const models::LossSum& of_slice);  // or of a part of it
};

class Strategy {
 public:
  virtual ~Strategy() = default;

  virtual Result<StepReport> step(const StepInput& input) = 0;

  // Goes on in another generation, where rank owners[i] computes slice i. Collective; the state
  // stays as it is. After a step that failed, this rank's own sums of it are kept for a step with
  // `finishes`, whose owners must be those of comm::inherit_leaves.
  virtual Status enter(std::shared_ptr<comm::Communicator> communicator,
                       const comm::LeafOwners& owners) = 0;
  // The step whose sums are kept; none: there are no such sums, or this strategy keeps none.
  virtual std::optional<Step> kept() const = 0;

  // This rank lacks the state, and gets it beside the training: until catch_up() its steps change
  // nothing, and the updates are kept instead. It must own no slices. Called again: begins anew.
  virtual void fall_behind() = 0;
  virtual bool behind() const noexcept = 0;
  // The tensors are now what they were at fall_behind(): applies the updates since.
  virtual Status catch_up() = 0;

  // Sums over the slices of a batch, forward only. Local: `combine` makes them global.
  virtual Status evaluate(const data::StepBatch& batch, std::span<EvaluationTotals> by_slice) = 0;
  // Adds up what every rank found, in the order of slices: the same bits at any size.
  virtual Result<EvaluationTotals> combine(std::span<const EvaluationTotals> by_slice) = 0;

  // Whether the model's tensors hold the average of the weights (optim::AverageSpec), for
  // evaluations, or the trained ones again, bit by bit. Nobody may read the state meanwhile, and no
  // step comes in between. Collective where ranks hold parts; an error leaves the trained ones.
  virtual Status use_average(bool average) = 0;

  // Model tensors and optimizer tensors, valid until the next update. Writing through them loads.
  virtual std::vector<StateSlice> model_state() = 0;
  virtual std::vector<StateSlice> optimizer_state() = 0;
  // The same as whole tensors on rank `to`; elsewhere anything. Collective where ranks hold parts.
  // Valid until the next update.
  virtual Result<State> gather_state(Rank) { return State{model_state(), optimizer_state()}; }
  // Whether this rank's state is all of it; else others hold the rest.
  virtual bool holds_all() const { return true; }
  // So many ranks compute the same slices together: these are given to the first of them (see
  // enter()), and all of them get their data.
  virtual std::int32_t ranks_per_replica() const { return 1; }
  virtual Rank first_of_replica(Rank rank) const { return rank; }
  // Ranks with the same number hold the same state, tensor by tensor, once they have entered a
  // generation.
  virtual std::int32_t part_of(Rank) const { return 0; }
  // Of so many ranks, how many neighbouring ones should be given their slices in turns
  // (comm::owners_in_turns), since these are best computed at the same time; 1: each its own. Of
  // ranks that compute slices together the first ones count.
  virtual std::int32_t ranks_in_turns([[maybe_unused]] std::int32_t ranks) const { return 1; }
  // What every rank holds alike, bit by bit.
  virtual std::vector<StateSlice> replicated_state();
  // After writing through model_state() and optimizer_state(): takes that over, as a state that has
  // seen so many updates.
  virtual void loaded(std::int64_t updates) = 0;
};

// What this rank holds: the model's tensors, then the optimizer's.
inline std::vector<StateSlice> state_here(Strategy& strategy) {
  std::vector<StateSlice> state = strategy.model_state();
  for (StateSlice& slice : strategy.optimizer_state()) state.push_back(std::move(slice));
  return state;
}

inline std::vector<StateSlice> Strategy::replicated_state() { return state_here(*this); }

}  // namespace muster::parallel
