// The state of a pipeline: what a rank has of it, and what checkpoints have.
#include <algorithm>
#include <iterator>
#include <utility>

#include "muster/parallel/part_slices.h"
#include "muster/parallel/pipeline/pipeline.h"
#include "muster/parallel/state_order.h"

namespace muster::parallel {

bool Pipeline::holds_all() const {
  return stages() * together_.parts().size * update_->optimizer().shards() == 1 &&
         !experts_.are_dealt();
}

Status Pipeline::use_average(bool average) {
  if (average == update_->uses_average()) return ok();
  mirror_.changed();
  Status used = use_everywhere(average);
  if (used || !average) return used;
  for (PeerUpdate* const update : updates()) MUSTER_TRY(update->use_average(false));
  return used;
}

Status Pipeline::use_everywhere(bool average) {
  for (PeerUpdate* const update : updates()) MUSTER_TRY(update->use_average(average));
  return tied_->share(model(), *links_);
}

std::vector<StateSlice> Pipeline::model_state() {
  std::vector<StateSlice> state;
  for (const std::size_t p : stage_->owned()) {
    const models::Parameter& parameter = model().parameters()[p];
    add_slices(state, parameter.name, mirror_.of(parameter.tensor), parameter.cut);
  }
  for (const models::Parameter& parameter : model().expert_parameters())
    add_slices(state, parameter.name, mirror_.of(parameter.tensor), parameter.cut);
  for (const models::Parameter& parameter : model().frozen())
    if (!parameter.borrowed)
      add_slices(state, parameter.name, mirror_.of(parameter.tensor), parameter.cut);
  for (const models::Statistic& statistic : model().statistics())
    add_slices(state, statistic.name, mirror_.of(statistic.tensor), statistic.cut);
  return state;
}

void Pipeline::loaded(std::int64_t steps) {
  mirror_.write_back();
  for (PeerUpdate* const update : updates()) update->loaded(steps);
}

std::vector<StateSlice> Pipeline::optimizer_state() {
  std::vector<StateSlice> state;
  for (PeerUpdate* const update : updates())
    std::ranges::move(update->optimizer().state(), std::back_inserter(state));
  return state;
}

Result<State> Pipeline::gather_state(Rank to) {
  comm::OpOptions op = options_.op;
  op.label = "state";
  State state;
  const auto model_here = together_.own_part(model_state(), model());
  MUSTER_ASSIGN(state.model, gathered_model_.gather(*communicator_, model_here, to, op));
  const auto optimizer_here = together_.own_part(optimizer_state(), model());
  MUSTER_ASSIGN(state.optimizer,
                gathered_optimizer_.gather(*communicator_, optimizer_here, to, op));
  sort_by_owner(state_names_, state.model);
  sort_by_owner(parameter_names_, state.optimizer);
  return state;
}

std::uint64_t Pipeline::optimizer_bytes(std::int32_t) {
  std::uint64_t bytes = 0;
  for (PeerUpdate* const update : updates()) bytes += update->optimizer().state_bytes();
  return bytes;
}

std::uint64_t Pipeline::rollback_bytes() {
  std::uint64_t bytes = 0;
  if (!options_.optimizer_first) return bytes;
  for (PeerUpdate* const update : updates()) bytes += update->optimizer().ahead_bytes();
  return bytes;
}

}  // namespace muster::parallel
