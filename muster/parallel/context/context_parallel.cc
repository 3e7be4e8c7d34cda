#include "muster/parallel/context/context_parallel.h"

#include <algorithm>
#include <string>
#include <utility>

#include "muster/base/check.h"
#include "muster/parallel/combine.h"
#include "muster/parallel/fixed_group.h"
#include "muster/parallel/state_order.h"

namespace muster::parallel {
namespace {

using layout::Axis;

}  // namespace

Result<std::unique_ptr<ContextParallel>> ContextParallel::create(
    std::unique_ptr<models::Model> model, models::ContextAttention attention,
    const optim::CreateOptimizer& create_optimizer, SliceOptions options, const MeshPlace& place,
    Clock& clock) {
  MUSTER_CHECK(options.lanes == 1, "lanes would meet other lanes of the group");
  MUSTER_CHECK(options.ordered && !options.elastic && !options.backup, "all run the same slices");
  options.together = {place.along(Axis::kContext), place.mesh.extent(Axis::kContext)};
  options.bucket_sizes = sizes_for_shards(options.bucket_sizes, place.mesh.extent(Axis::kShard));
  const auto ranks = std::make_shared<ContextRanks>(options.together, attention, options.op);
  MUSTER_TRY(model->share_sequences(ranks));
  std::unique_ptr<ContextParallel> strategy(
      new ContextParallel(std::move(model), ranks, place, std::move(options), clock));
  MUSTER_ASSIGN(strategy->update_,
                PeerUpdate::create({.parameters = strategy->model().parameters(),
                                    .counts = strategy->slices().slot_counts(),
                                    .bucket_sizes = strategy->slices().options().bucket_sizes,
                                    .place = place},
                                   create_optimizer, strategy->lanes_runner()));
  return strategy;
}

ContextParallel::ContextParallel(std::unique_ptr<models::Model> model,
                                 std::shared_ptr<ContextRanks> ranks, MeshPlace place,
                                 SliceOptions options, Clock& clock)
    : SliceStrategy(std::move(model), std::move(options), clock),
      place_(std::move(place)),
      ranks_(std::move(ranks)) {}

Rank ContextParallel::first_of_replica(Rank rank) const {
  return place_.first_of(rank, {Axis::kContext});
}

// The rank of the same replica with that place along the axis.
Rank ContextParallel::neighbour(Rank rank, std::int32_t along_context) const {
  layout::Coordinates place = place_.mesh.coordinates(rank);
  place[Axis::kContext] = along_context;
  return place_.mesh.rank(place);
}

Status ContextParallel::enter(std::shared_ptr<comm::Communicator> communicator,
                              const comm::LeafOwners& owners) {
  MUSTER_TRY(check_same_place(place_.group, communicator->group(), "context",
                              "{} ranks share the sequences"));
  Peers peers = update_->peers();
  if (communicator != communicator_) {
    const auto together = place_.part({Axis::kContext});
    MUSTER_ASSIGN(auto ranks, communicator->split(together.color, together.key));
    ranks_->use(std::move(ranks));
    MUSTER_ASSIGN(peers, Peers::connect(communicator, place_,
                                        {Axis::kReplicate, Axis::kShard, Axis::kContext}));
    communicator_ = std::move(communicator);
  }
  comm::LeafOwners leaves;
  for (std::int32_t place = 0; place < ranks_per_replica(); ++place)
    for (const Rank owner : owners) leaves.push_back(neighbour(owner, place));
  MUSTER_TRY(slices().enter(peers.all(), peers.owners(leaves), update_->shards_for(peers)));
  update_->enter(std::move(peers), slices().exchange(), slices().options().op);
  return ok();
}

Result<StepReport> ContextParallel::step(const StepInput& input) {
  StepReport report;
  ranks_->take_bytes();  // of evaluations
  MUSTER_TRY(compute(input, report));
  report.bytes_reduced += ranks_->take_bytes();
  MUSTER_TRY(update_->gather_sums());
  MUSTER_ASSIGN(const std::vector<double> squares, update_->squared_norms());
  MUSTER_ASSIGN(const auto divisor, slices().check_and_clip(input, squares, report));
  if (!divisor) return report;
  MUSTER_TRY(timed_update(input, report, [&] {
    gathered_.forget();  // whoever read it has finished
    return update_->update(input.learning_rate, *divisor);
  }));
  apply_statistics(slices().summed_statistics());
  return report;
}

Status ContextParallel::compute(const StepInput& input, StepReport& report) {
  Status computed = slices().compute(input, report);
  if (computed) return computed;
  return ranks_->take_failure().value_or(computed.error());
}

Status ContextParallel::evaluate(const data::StepBatch& batch,
                                 std::span<EvaluationTotals> by_slice) {
  Status evaluated = SliceStrategy::evaluate(batch, by_slice);
  if (evaluated) return evaluated;
  return ranks_->take_failure().value_or(evaluated.error());
}

// A slice has a part on each rank of its replica: in the order of places, then of slices.
Result<EvaluationTotals> ContextParallel::combine(std::span<const EvaluationTotals> by_slice) {
  const auto ranks = static_cast<std::size_t>(ranks_per_replica());
  const auto place = static_cast<std::size_t>(ranks_->share().rank);
  std::vector<EvaluationTotals> parts(ranks * by_slice.size());
  std::ranges::copy(by_slice, parts.begin() + static_cast<std::ptrdiff_t>(place * by_slice.size()));
  return combine_totals(*communicator_, parts, slices().options().op);
}

Result<State> ContextParallel::gather_state(Rank to) {
  if (holds_all()) return State{model_state(), optimizer_state()};
  comm::OpOptions op = slices().options().op;
  op.label = "optimizer state";
  State state{model_state(), {}};
  MUSTER_ASSIGN(state.optimizer, gathered_.gather(*communicator_, optimizer_state(), to, op));
  std::vector<std::string> owners;
  for (const models::Parameter& parameter : model().parameters()) owners.push_back(parameter.name);
  sort_by_owner(owners, state.optimizer);
  return state;
}

std::vector<StateSlice> ContextParallel::replicated_state() {
  if (holds_all()) return SliceStrategy::replicated_state();
  return model_state();
}

std::uint64_t ContextParallel::optimizer_bytes(std::int32_t) {
  return update_->optimizer().state_bytes();
}

void ContextParallel::fall_behind() {
  MUSTER_CHECK(false, "parts of sequences are not given to newcomers");
}

Status ContextParallel::warm_up(const data::StepBatch&) {
  return fail(ErrorCode::kUnsupported, "[parallel/context] nobody joins a group of ranks");
}

}  // namespace muster::parallel
