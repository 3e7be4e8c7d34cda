#include "muster/parallel/shared_slices.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "muster/base/check.h"
#include "muster/parallel/combine.h"
#include "muster/parallel/fixed_group.h"
#include "muster/parallel/part_slices.h"
#include "muster/parallel/scattered_shards.h"
#include "muster/parallel/state_order.h"
#include "muster/parallel/weight_shards.h"

namespace muster::parallel {
namespace {

using layout::Axis;

}  // namespace

Result<std::unique_ptr<SharedSlices>> SharedSlices::create(
    std::unique_ptr<models::Model> model, const TogetherOptions& together,
    const optim::CreateOptimizer& create_optimizer, SliceOptions options, const MeshPlace& place,
    Clock& clock) {
  MUSTER_CHECK(options.lanes == 1, "lanes would meet other lanes of the group");
  MUSTER_CHECK(options.ordered && !options.elastic && !options.backup, "all run the same slices");
  if (options.shard_gradients && place.mesh.extent(Axis::kShard) == 1)
    return fail(ErrorCode::kUnsupported,
                "[parallel/together] one shard has nobody to share gradients with (stage 1)");
  auto ranks = std::make_unique<const Together>(place, together);
  const std::int64_t parameter_count = model->parameter_count();
  MUSTER_TRY(ranks->cut(*model));
  model->initialize(options.seed);
  options.together = ranks->sharers();
  options.bucket_sizes = sizes_for_shards(options.bucket_sizes, place.mesh.extent(Axis::kShard));
  std::unique_ptr<SharedSlices> strategy(
      new SharedSlices(std::move(model), std::move(ranks), place, std::move(options), clock));
  MUSTER_TRY(strategy->build(create_optimizer, parameter_count));
  return strategy;
}

SharedSlices::SharedSlices(std::unique_ptr<models::Model> model,
                           std::unique_ptr<const Together> together, MeshPlace place,
                           SliceOptions options, Clock& clock)
    : SliceStrategy(std::move(model), std::move(options), clock),
      place_(std::move(place)),
      together_(std::move(together)) {}

Status SharedSlices::build(const optim::CreateOptimizer& create, std::int64_t parameter_count) {
  parameter_count_ = parameter_count;
  MUSTER_ASSIGN(update_,
                PeerUpdate::create({.parameters = model().parameters(),
                                    .layout = slices().bucket_layout(),
                                    .place = place_,
                                    .weights_of = options().shard_weights ? &model() : nullptr,
                                    .frozen_sizes = options().bucket_sizes},
                                   create, lanes_runner()));
  together_->complete_norms(update_->optimizer());
  return ok();
}

std::int32_t SharedSlices::ranks_per_replica() const {
  return together_->parts().size * together_->sharers().size;
}

Rank SharedSlices::first_of_replica(Rank rank) const {
  return place_.first_of(rank, {Axis::kTensor, Axis::kContext});
}

bool SharedSlices::holds_all() const {
  return holds_all_tensors() && update_->optimizer().shards() == 1;
}

Status SharedSlices::enter(std::shared_ptr<comm::Communicator> communicator,
                           const comm::LeafOwners& owners) {
  MUSTER_TRY(check_same_place(
      place_.group, communicator->group(), holds_all_tensors() ? "context" : "tensor",
      holds_all_tensors() ? "{} ranks share the sequences" : "the tensors lie on {} ranks"));
  Peers peers = update_->peers();
  if (communicator != communicator_) {
    MUSTER_TRY(together_->connect(*communicator));
    MUSTER_ASSIGN(peers, Peers::connect(communicator, place_, Together::axes_of_peers()));
    communicator_ = std::move(communicator);
  }
  const comm::LeafOwners leaves = peers.owners(together_->leaves(owners));
  if (options().shard_gradients) return share_gradients(std::move(peers), leaves);
  MUSTER_TRY(slices().enter(peers.all(), leaves, update_->shards_for(peers)));
  update_->enter(std::move(peers), slices().exchange(), options().op);
  return ok();
}

// Among those that have the same part of the model and of the sequences, of which each owns a
// shard. A rank that is ahead and waits there holds up those that compute the slice with it, and so
// are ahead as well. All come to the same gradients, and blocks, in the same order: the one that is
// least far waits for nobody who waits for it.
Status SharedSlices::share_gradients(Peers peers, const comm::LeafOwners& leaves) {
  MUSTER_TRY(slices().enter(peers.all(), leaves));
  auto here = shard_owners(peers, update_->optimizer().plan(), leaves, options().ordered);
  std::unique_ptr<WeightGathers> gathers;
  if (update_->weights() != nullptr) {
    MUSTER_ASSIGN(gathers,
                  update_->weights()->gathers(*here.ranks, options().compute, options().op));
  }
  MUSTER_TRY(slices().share_gradients(std::move(here), std::move(gathers)));
  update_->enter(std::move(peers), slices().shard_exchange(), options().op);
  return ok();
}

Result<StepReport> SharedSlices::step(const StepInput& input) {
  StepReport report;
  together_->take_bytes();  // of evaluations
  MUSTER_TRY(compute(input, report));
  MUSTER_TRY(update_->gather_sums());
  MUSTER_TRY(together_->sum_addends(*update_));
  report.bytes_reduced += together_->take_bytes();
  MUSTER_ASSIGN(std::vector<double> own, update_->squared_norms());
  MUSTER_ASSIGN(const std::vector<double> squares,
                together_->agree(model().parameters(), std::move(own), report));
  MUSTER_ASSIGN(const auto divisor, slices().check_and_clip(input, squares, report));
  if (!divisor) return report;
  MUSTER_TRY(timed_update(input, report, [&] { return update(input.learning_rate, *divisor); }));
  report.bytes_reduced += update_->sent_bytes();
  return report;
}

Status SharedSlices::compute(const StepInput& input, StepReport& report) {
  Status computed = slices().compute(input, report);
  if (computed) return computed;
  return together_->cause_of(computed.error());
}

Status SharedSlices::update(double learning_rate, double divisor) {
  gathered_model_.forget();  // whoever read it has finished
  gathered_optimizer_.forget();
  MUSTER_TRY(update_->update(learning_rate, divisor));
  apply_statistics(slices().summed_statistics());
  return ok();
}

Status SharedSlices::use_average(bool average) {
  mirror().changed();
  return update_->use_average(average);
}

void SharedSlices::loaded(std::int64_t steps) {
  mirror().write_back();
  update_->loaded(steps);
}

Status SharedSlices::evaluate(const data::StepBatch& batch, std::span<EvaluationTotals> by_slice) {
  Status evaluated = SliceStrategy::evaluate(batch, by_slice);
  if (evaluated) return evaluated;
  return together_->cause_of(evaluated.error());
}

Result<EvaluationTotals> SharedSlices::combine(std::span<const EvaluationTotals> by_slice) {
  return combine_totals(*communicator_, together_->by_leaf(by_slice), model().measures(),
                        options().op);
}

std::vector<StateSlice> SharedSlices::model_state() {
  if (update_->weights() != nullptr) {
    std::vector<StateSlice> state = update_->weights()->state();
    std::ranges::move(statistics(), std::back_inserter(state));
    return state;
  }
  return SliceStrategy::model_state();
}

std::vector<StateSlice> SharedSlices::statistics() {
  std::vector<StateSlice> state;
  for (const models::Statistic& statistic : model().statistics())
    add_slices(state, statistic.name, mirror().of(statistic.tensor), statistic.cut);
  return state;
}

std::vector<StateSlice> SharedSlices::replicated_state() {
  if (!holds_all_tensors()) return {};
  if (update_->weights() != nullptr) return statistics();
  return holds_all() ? SliceStrategy::replicated_state() : model_state();
}

// In the order of model_state() of a whole model.
std::vector<std::string> SharedSlices::state_names() const {
  std::vector<std::string> names;
  for (const auto* parameters : {&model().parameters(), &model().frozen()})
    for (const models::Parameter& parameter : *parameters) names.push_back(parameter.name);
  for (const models::Statistic& statistic : model().statistics()) names.push_back(statistic.name);
  return names;
}

Result<State> SharedSlices::gather_state(Rank to) {
  if (holds_all()) return State{model_state(), optimizer_state()};
  comm::OpOptions op = options().op;
  op.label = "state";
  State state;
  auto model_here = together_->own_part(model_state(), model());
  MUSTER_ASSIGN(state.model, gathered_model_.gather(*communicator_, model_here, to, op));
  auto optimizer_here = together_->own_part(optimizer_state(), model());
  MUSTER_ASSIGN(state.optimizer,
                gathered_optimizer_.gather(*communicator_, optimizer_here, to, op));
  sort_by_owner(state_names(), state.model);
  sort_by_owner(state_names(), state.optimizer);
  return state;
}

std::uint64_t SharedSlices::optimizer_bytes(std::int32_t) {
  return update_->optimizer().state_bytes();
}

std::uint64_t SharedSlices::gradient_bytes(std::int32_t ranks) {
  const std::uint64_t whole = SliceStrategy::gradient_bytes(ranks);
  if (!options().shard_gradients) return whole;
  const std::int32_t units = options().virtual_workers / place_.mesh.extent(Axis::kReplicate);
  return scattered_bytes(whole, units, update_->optimizer().shards(), lanes());
}

std::uint64_t SharedSlices::weight_bytes(std::int32_t ranks) {
  const std::uint64_t whole = SliceStrategy::weight_bytes(ranks);
  if (!options().shard_weights) return whole;
  return whole / static_cast<std::uint64_t>(update_->optimizer().shards()) +
         widest_two_blocks(model());
}

std::int32_t SharedSlices::ranks_in_turns(std::int32_t) const {
  return options().shard_gradients ? update_->optimizer().shards() : 1;
}

void SharedSlices::fall_behind() {
  MUSTER_CHECK(false, "parts of tensors or sequences are not given to newcomers");
}

Status SharedSlices::warm_up(const data::StepBatch&) {
  return fail(ErrorCode::kUnsupported, "[parallel/together] nobody joins a group of ranks");
}

}  // namespace muster::parallel
