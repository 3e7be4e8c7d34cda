#include "muster/parallel/context/context_parallel.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "muster/base/check.h"
#include "muster/parallel/combine.h"
#include "muster/parallel/fixed_group.h"

namespace muster::parallel {
namespace {

using layout::Axis;

}  // namespace

Result<std::unique_ptr<ContextParallel>> ContextParallel::create(
    std::unique_ptr<models::Model> model, std::unique_ptr<optim::Optimizer> optimizer, Cut cut,
    SliceOptions options, const comm::Group& group, Clock& clock) {
  MUSTER_CHECK(options.lanes == 1, "lanes would meet other lanes of the group");
  MUSTER_CHECK(options.ordered && !options.elastic && !options.backup, "all run the same slices");
  MUSTER_ASSIGN(const layout::Mesh mesh, mesh_of_replicas(Axis::kContext, cut.ranks, group.size));
  options.together = {mesh.coordinates(group.rank)[Axis::kContext], cut.ranks};
  const auto ranks = std::make_shared<ContextRanks>(options.together, cut.attention, options.op);
  MUSTER_TRY(model->share_sequences(ranks));
  return std::unique_ptr<ContextParallel>(new ContextParallel(
      std::move(model), std::move(optimizer), ranks, {mesh, group}, std::move(options), clock));
}

ContextParallel::ContextParallel(std::unique_ptr<models::Model> model,
                                 std::unique_ptr<optim::Optimizer> optimizer,
                                 std::shared_ptr<ContextRanks> ranks, Places places,
                                 SliceOptions options, Clock& clock)
    : DataParallel(std::move(model), std::move(optimizer), std::move(options), clock),
      mesh_(places.mesh),
      group_(places.group),
      ranks_(std::move(ranks)) {}

// The rank of the same replica with that place along the axis.
Rank ContextParallel::neighbour(Rank rank, std::int32_t along_context) const {
  layout::Coordinates place = mesh_.coordinates(rank);
  place[Axis::kContext] = along_context;
  return mesh_.rank(place);
}

Status ContextParallel::enter(std::shared_ptr<comm::Communicator> communicator,
                              const comm::LeafOwners& owners) {
  const comm::Group group = communicator->group();
  MUSTER_TRY(check_same_place(group_, group, "context", "{} ranks share the sequences"));
  if (communicator != communicator_) {
    const auto together = mesh_.part(group.rank, {Axis::kContext});
    MUSTER_ASSIGN(auto ranks, communicator->split(together.color, together.key));
    ranks_->use(std::move(ranks));
    communicator_ = communicator;
  }
  comm::LeafOwners leaves;
  for (std::int32_t place = 0; place < ranks_per_replica(); ++place)
    for (const Rank owner : owners) leaves.push_back(neighbour(owner, place));
  return DataParallel::enter(std::move(communicator), leaves);
}

Result<StepReport> ContextParallel::step(const StepInput& input) {
  ranks_->take_bytes();  // of evaluations
  Result<StepReport> report = DataParallel::step(input);
  if (!report) return ranks_->take_failure().value_or(report.error());
  report->bytes_reduced += ranks_->take_bytes();
  return report;
}

Status ContextParallel::evaluate(const data::StepBatch& batch,
                                 std::span<EvaluationTotals> by_slice) {
  Status evaluated = DataParallel::evaluate(batch, by_slice);
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

void ContextParallel::fall_behind() {
  MUSTER_CHECK(false, "parts of sequences are not given to newcomers");
}

Status ContextParallel::warm_up(const data::StepBatch&) {
  return fail(ErrorCode::kUnsupported, "[parallel/context] nobody joins a group of ranks");
}

}  // namespace muster::parallel
