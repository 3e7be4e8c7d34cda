#pragma once
// Pipeline parallelism: the model's blocks lie on stages, micro-batches run through them one behind
// the other, in an order that a schedule says (GPipe: Huang et al. 2019; 1F1B: PipeDream-flush,
// Narayanan et al. 2021; ZB-H1 and ZB-V: Qi et al. 2024). A slice of the global batch is a
// micro-batch (or several, see micro_batch_size), so the sums follow the same fixed tree as
// everywhere and the bits are those of plain data parallelism.
//
// Of the mesh the axis `pipeline` is along the stages; along `replicate` and `shard` there are
// replicas. Slices go to replicas; all ranks of one are given its slices. The stages' gradients are
// summed over replicas; along `shard` each keeps a share of the optimizer's state of its blocks
// (peer_update.h). Along `tensor` and `context` several ranks compute each stage together, as they
// compute a whole model (together.h), each with those of the other stages that are alike: then the
// bits are those of as many ranks without stages. A rank that dies takes its blocks with it, so
// another one takes its place.
//
// Along `expert` ranks with slices of their own hold the experts of their stage's blocks between
// them (expert/dealt_experts.h). They play one schedule with as many micro-batches, whole slices,
// also of no samples: so they come to each layer of experts in the same order, and their exchanges
// wait for nothing that the stages of one replica would not wait for. One thread.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/layout/pipeline/make.h"
#include "muster/optim/optimizer.h"
#include "muster/parallel/expert/dealt_experts.h"
#include "muster/parallel/gather_state.h"
#include "muster/parallel/gradient_exchange.h"
#include "muster/parallel/host_mirror.h"
#include "muster/parallel/lanes.h"
#include "muster/parallel/mesh_place.h"
#include "muster/parallel/model_strategy.h"
#include "muster/parallel/peer_update.h"
#include "muster/parallel/pipeline/chunk_places.h"
#include "muster/parallel/pipeline/stage_links.h"
#include "muster/parallel/pipeline/stage_model.h"
#include "muster/parallel/pipeline/stage_totals.h"
#include "muster/parallel/pipeline/tied_weights.h"
#include "muster/parallel/together.h"
#include "muster/parallel/unit_passes.h"

namespace muster::parallel {

struct PipelineOptions {
  layout::PipelineOptions schedule;  // with any number of micro-batches
  layout::Partition chunks;          // of the model's blocks
  PassOptions passes;
  double max_grad_norm = 0;  // 0: no clipping
  // A stage updates while the norms of all stages are still being summed, and rolls back where they
  // say so; the same bits. Not where the update needs the others (ShardedOptimizer).
  bool optimizer_first = false;
  models::Compute compute = {};
  BucketSizes bucket_sizes{256 << 10, 1 << 20};
  TogetherOptions together = {};  // without its `op`
  comm::OpOptions op = {};
  // What it computes from here on, "backward of slice 3, chunk 1"; empty: nothing.
  std::function<void(std::string_view pass)> computing = [](std::string_view) {};
};

class Pipeline final : public ModelStrategy {
 public:
  // kInvalid where the schedule cannot be made, or has another number of chunks than the options;
  // kUnsupported where ranks cannot compute such a model together, its experts not be dealt, or
  // these are dealt and slices cut into micro-batches. `whole`: not initialised; this
  // rank takes its part of its blocks and initialises that from `seed`. The mesh has the schedule's
  // stages.
  static Result<std::unique_ptr<Pipeline>> create(models::Model& whole, std::uint64_t seed,
                                                  const optim::CreateOptimizer& create_optimizer,
                                                  PipelineOptions options, const MeshPlace& place,
                                                  Clock& clock);

  Result<StepReport> step(const StepInput& input) override;
  // Another rank or number of ranks than at create(): kUnavailable. `owners`: with dealt experts,
  // of every first rank of a replica as many slices.
  Status enter(std::shared_ptr<comm::Communicator> communicator,
               const comm::LeafOwners& owners) override;
  std::optional<Step> kept() const override { return std::nullopt; }
  std::int32_t ranks_per_replica() const override;
  Rank first_of_replica(Rank rank) const override;
  std::int32_t part_of(Rank rank) const override {
    return place_.part_of(rank, {layout::Axis::kReplicate, layout::Axis::kContext});
  }

  // Nobody joins beside the training.
  void fall_behind() override;
  bool behind() const noexcept override { return false; }
  Status catch_up() override { return ok(); }
  Status warm_up(const data::StepBatch& batch) override;
  Status use_average(bool average) override;

  Status evaluate(const data::StepBatch& batch, std::span<EvaluationTotals> by_slice) override;
  Result<EvaluationTotals> combine(std::span<const EvaluationTotals> by_slice) override;

  std::vector<StateSlice> model_state() override;
  std::vector<StateSlice> optimizer_state() override;
  Result<State> gather_state(Rank to) override;
  std::vector<StateSlice> replicated_state() override { return {}; }
  bool holds_all() const override;
  void loaded(std::int64_t steps) override;

  models::Model& model() const noexcept override { return stage_->model(); }
  std::int64_t parameter_count() const override { return parameter_count_; }
  std::uint64_t optimizer_bytes(std::int32_t ranks) override;
  std::uint64_t rollback_bytes() override;
  std::int32_t lanes() const noexcept override { return 1; }

 private:
  struct MicroBatch {
    UnitPass unit;
    std::vector<float> notes;
    StageModel::Loss loss;
  };
  Pipeline(PipelineOptions options, MeshPlace place, Clock& clock);
  Status build(models::Model& whole, std::uint64_t seed, const optim::CreateOptimizer& create);
  void note(const models::Model& whole);
  Status create_update(const optim::CreateOptimizer& create);
  std::vector<PeerUpdate*> updates() const;
  static std::vector<layout::Axis> axes_of_peers();
  static std::vector<layout::Axis> axes_of_replica() {  // along which ranks have the same slices
    return {layout::Axis::kPipeline, layout::Axis::kTensor, layout::Axis::kContext};
  }
  Error cause_of(Error error);
  // Dealt experts are met in passes of all ranks.
  bool has_pass(const data::SliceBatch& slice) const {
    return slice.samples > 0 || experts_.are_dealt();
  }
  Status use_everywhere(bool average);
  std::int32_t stages() const noexcept { return options_.schedule.stages; }
  std::size_t local(std::size_t chunk) const;  // among this rank's

  std::vector<MicroBatch> micro_batches(const StepInput& input);
  Result<const layout::PipelineSchedule*> schedule_of(std::int32_t micro_batches);
  Status run(std::vector<MicroBatch>& batches);
  bool expect(const layout::Action& action, const std::vector<MicroBatch>& batches);
  Status forward(std::size_t chunk, std::size_t micro, MicroBatch& batch);
  // kBackward or kBackwardInput.
  Status backward(layout::ActionKind kind, std::size_t chunk, std::size_t micro,
                  const MicroBatch& batch);
  void backward_weight(std::size_t chunk, std::size_t micro, const MicroBatch& batch);
  Result<at::Tensor> take(std::size_t from, TensorKind kind, std::size_t micro);
  void give(std::size_t to, TensorKind kind, std::size_t micro, at::Tensor tensor);
  Status evaluate(std::size_t chunk, const data::SliceBatch& slice, EvaluationTotals& totals);

  void tell(std::string_view pass, const MicroBatch& batch, std::size_t chunk) const;
  Status conclude(const StepInput& input, StepReport& report);
  Result<std::optional<double>> validate(const StepInput& input, StepReport& report);
  bool updates_ahead() const;
  bool is_ahead() const;
  Result<std::vector<double>> squared_norms();
  StageTotals totals_of(const StepReport& report, std::span<const double> own, bool ahead) const;
  void put_square(const models::Parameter& parameter, double square, StageTotals& totals) const;
  Status update_ahead(const StepInput& input, double divisor, const comm::Work& deciding,
                      StepReport& report);
  Status update(double learning_rate, double divisor);

  const PipelineOptions options_;
  const MeshPlace place_;
  const Together together_;
  DealtExperts experts_;  // of the blocks here
  const layout::Stage own_stage_;
  ChunkPlaces places_;
  std::map<std::int32_t, layout::PipelineSchedule> schedules_;  // by number of micro-batches
  Clock& clock_;
  LanePool lane_{1};
  std::vector<std::string> parameter_names_;  // of the whole model, in its order
  std::vector<std::string> state_names_;      // the same, then statistics
  std::vector<std::string> metric_names_;     // of the whole model
  std::int64_t parameter_count_ = 0;
  std::vector<std::size_t> my_chunks_;
  std::unique_ptr<StageModel> stage_;
  std::unique_ptr<const TiedWeights> tied_;
  std::unique_ptr<PeerUpdate> update_;  // of what is no dealt expert's
  HostMirror mirror_;                   // of the model

  // Of the present generation:
  std::shared_ptr<comm::Communicator> communicator_;  // of all ranks
  std::int32_t slices_ = 0;
  std::unique_ptr<StageLinks> links_;
  std::unique_ptr<GradientExchange> exchange_;
  std::map<std::pair<std::uint32_t, std::size_t>, at::Tensor> here_;  // between own chunks
  struct Busy {
    Duration forward{};
    Duration backward{};
  } busy_;                                             // in this step
  GatheredState gathered_model_, gathered_optimizer_;  // until the next update
};

}  // namespace muster::parallel
