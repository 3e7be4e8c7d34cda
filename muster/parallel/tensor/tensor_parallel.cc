#include "muster/parallel/tensor/tensor_parallel.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "muster/base/check.h"
#include "muster/models/torch_error.h"
#include "muster/parallel/fixed_group.h"
#include "muster/parallel/part_slices.h"
#include "muster/parallel/state_order.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

using layout::Axis;

}  // namespace

Result<std::unique_ptr<TensorParallel>> TensorParallel::create(
    std::unique_ptr<models::Model> model, Cut cut, const optim::CreateOptimizer& create_optimizer,
    SliceOptions options, const MeshPlace& place, Clock& clock) {
  MUSTER_CHECK(options.lanes == 1, "lanes would meet other lanes of the group");
  MUSTER_CHECK(options.ordered && !options.elastic && !options.backup, "all run the same slices");
  const models::TensorShare share{place.along(Axis::kTensor), place.mesh.extent(Axis::kTensor)};
  const auto held = std::make_shared<TensorRanks>(share, options.op, cut.sequence);
  const std::int64_t parameter_count = model->parameter_count();
  MUSTER_TRY(model->split(held));
  model->initialize(options.seed);
  options.bucket_sizes = sizes_for_shards(options.bucket_sizes, place.mesh.extent(Axis::kShard));
  std::unique_ptr<TensorParallel> strategy(
      new TensorParallel(std::move(model), held, place, std::move(options), clock));
  MUSTER_TRY(strategy->build(create_optimizer, parameter_count));
  return strategy;
}

TensorParallel::TensorParallel(std::unique_ptr<models::Model> model,
                               std::shared_ptr<TensorRanks> ranks, MeshPlace place,
                               SliceOptions options, Clock& clock)
    : SliceStrategy(std::move(model), std::move(options), clock),
      place_(std::move(place)),
      ranks_(std::move(ranks)) {}

Status TensorParallel::build(const optim::CreateOptimizer& create, std::int64_t parameter_count) {
  parameter_count_ = parameter_count;
  MUSTER_ASSIGN(update_, PeerUpdate::create({.parameters = model().parameters(),
                                             .counts = slices().slot_counts(),
                                             .bucket_sizes = slices().options().bucket_sizes,
                                             .place = place_},
                                            create, lanes_runner()));
  if (parts() > 1 && update_->optimizer().takes_norms())
    return fail(ErrorCode::kUnsupported,
                "[parallel/tensor] the optimizer takes norms of whole tensors, of which each rank "
                "has a part; take sgd or adamw");
  return ok();
}

Rank TensorParallel::first_of_replica(Rank rank) const {
  return place_.first_of(rank, {Axis::kTensor});
}

Status TensorParallel::enter(std::shared_ptr<comm::Communicator> communicator,
                             const comm::LeafOwners& owners) {
  MUSTER_TRY(check_same_place(place_.group, communicator->group(), "tensor",
                              "the tensors lie on {} ranks"));
  Peers peers = update_->peers();
  if (communicator != communicator_) {
    const auto together = place_.part({Axis::kTensor});
    MUSTER_ASSIGN(auto ranks, communicator->split(together.color, together.key));
    ranks_->use(std::move(ranks));
    MUSTER_ASSIGN(peers, Peers::connect(communicator, place_, {Axis::kReplicate, Axis::kShard}));
    communicator_ = std::move(communicator);
  }
  MUSTER_TRY(slices().enter(peers.all(), peers.owners(owners), update_->shards_for(peers)));
  update_->enter(std::move(peers), slices().exchange(), slices().options().op);
  return ok();
}

Result<StepReport> TensorParallel::step(const StepInput& input) {
  StepReport report;
  ranks_->take_bytes();  // of evaluations
  MUSTER_TRY(compute(input, report));
  MUSTER_TRY(update_->gather_sums());
  if (ranks_->cuts_sequence() && parts() > 1) MUSTER_TRY(sum_what_is_whole());
  report.bytes_reduced += ranks_->take_bytes();
  MUSTER_ASSIGN(const std::vector<double> squares, agree(report));
  MUSTER_ASSIGN(const auto divisor, slices().check_and_clip(input, squares, report));
  if (!divisor) return report;
  MUSTER_TRY(timed_update(input, report, [&] { return update(input.learning_rate, *divisor); }));
  return report;
}

Status TensorParallel::compute(const StepInput& input, StepReport& report) {
  Status computed = slices().compute(input, report);
  if (computed) return computed;
  return ranks_->take_failure().value_or(computed.error());
}

// Where sequences are cut each rank has the gradients of its positions. Of a shard it has some
// rows, which need not be those of the other parts' shards.
Status TensorParallel::sum_what_is_whole() {
  ShardedOptimizer& optimizer = update_->optimizer();
  std::vector<std::int64_t> begin;  // by parameter
  std::int64_t count = 0;
  for (const models::Parameter& parameter : optimizer.parameters()) {
    begin.push_back(count);
    if (!parameter.cut.is_part()) count += parameter.tensor.numel();
  }
  if (count == 0) return ok();
  const at::Tensor flat = at::zeros({count}, at::kFloat);
  const auto for_rows = [&](const std::function<void(const at::Tensor&, const at::Tensor&)>& body) {
    for (std::size_t i = 0; i < optimizer.pieces().size(); ++i) {
      const ShardPiece& piece = optimizer.pieces()[i];
      const std::size_t p = optimizer.parameter_of(piece);
      if (optimizer.parameters()[p].cut.is_part()) continue;
      body(flat.narrow(0, begin[p] + piece.begin, piece.count), optimizer.gradients()[i]);
    }
  };
  for_rows([](at::Tensor place, const at::Tensor& rows) { place.copy_(rows.view(-1)); });
  MUSTER_TRY(sum_over_all(flat));
  for_rows([](const at::Tensor& sum, at::Tensor rows) { rows.copy_(sum.view_as(rows)); });
  return ok();
}

// Over the shards, of which each has other numbers and the others zeros, then over the parts.
Status TensorParallel::sum_over_all(const at::Tensor& flat) {
  if (update_->optimizer().shards() > 1) {
    comm::OpOptions op = slices().options().op;
    op.label = "gradients of whole tensors";
    const comm::AllReduce sum{.buffer = view_over(flat)};
    MUSTER_TRY(update_->peers().one_of_each()->submit(sum, op).wait());
  }
  const Status summed = models::catch_torch("parallel/tensor", [&] {
    const at::NoGradGuard no_grad;
    at::Tensor(flat).copy_(ranks_->sum(flat, "gradients"));
  });
  if (summed) return ok();
  return ranks_->take_failure().value_or(summed.error());
}

// Each parameter counts once: of one that is cut every rank's part, else the first rank's. That one
// speaks for all of them in what should be alike, so that they decide alike whatever happens.
Result<std::vector<double>> TensorParallel::agree(StepReport& report) {
  constexpr std::size_t kFlagsAt = 2, kSquaresAt = kFlagsAt + Flags::size();
  const auto& parameters = model().parameters();
  std::vector<double> own{report.loss, report.accuracy};
  own.insert(own.end(), report.flags.data(), report.flags.data() + Flags::size());
  MUSTER_ASSIGN(const std::vector<double> of_part, update_->squared_norms());
  own.insert(own.end(), of_part.begin(), of_part.end());
  at::Tensor all;
  const Status told = models::catch_torch("parallel/tensor", [&] {
    const TensorView view{DType::kF64, {std::ssize(own)}, std::as_writable_bytes(std::span(own))};
    all = ranks_->gather(tensor_over(view), "norms");
  });
  if (!told) return ranks_->take_failure().value_or(told.error());
  const auto numbers = view_over(all).as<const double>();
  const auto of_rank = [&](std::int64_t rank, std::size_t i) {
    return numbers[static_cast<std::size_t>(rank) * own.size() + i];
  };
  const auto sum = [&](std::size_t i) {
    double total = 0;
    for (std::int64_t rank = 0; rank < all.size(0); ++rank) total += of_rank(rank, i);
    return total;
  };
  report.loss = of_rank(0, 0);
  report.accuracy = of_rank(0, 1);
  for (std::size_t f = 0; f < Flags::size(); ++f)
    report.flags.data()[f] = static_cast<float>(sum(kFlagsAt + f));
  std::vector<double> squares;
  for (std::size_t p = 0; p < parameters.size(); ++p)
    squares.push_back(parameters[p].cut.is_part() ? sum(kSquaresAt + p)
                                                  : of_rank(0, kSquaresAt + p));
  return squares;
}

Status TensorParallel::update(double learning_rate, double divisor) {
  gathered_model_.forget();  // whoever read it has finished
  gathered_optimizer_.forget();
  return update_->update(learning_rate, divisor);
}

Status TensorParallel::use_average(bool average) { return update_->use_average(average); }

Status TensorParallel::evaluate(const data::StepBatch& batch,
                                std::span<EvaluationTotals> by_slice) {
  Status evaluated = SliceStrategy::evaluate(batch, by_slice);
  if (evaluated) return evaluated;
  return ranks_->take_failure().value_or(evaluated.error());
}

std::vector<StateSlice> TensorParallel::model_state() {
  std::vector<StateSlice> state;
  for (const auto* parameters : {&model().parameters(), &model().frozen()})
    for (const models::Parameter& parameter : *parameters)
      add_slices(state, parameter.name, parameter.tensor, parameter.cut);
  return state;
}

std::vector<StateSlice> TensorParallel::optimizer_state() { return update_->optimizer().state(); }

// What is alike on all ranks of a replica is the first one's to give.
std::vector<StateSlice> TensorParallel::own_part(std::vector<StateSlice> state) const {
  if (ranks_->share().rank == 0) return state;
  std::set<std::string> whole;
  for (const auto* parameters : {&model().parameters(), &model().frozen()})
    for (const models::Parameter& parameter : *parameters)
      if (!parameter.cut.is_part()) whole.insert(parameter.name);
  std::erase_if(state,
                [&](const StateSlice& slice) { return whole.contains(owner_in(slice.name)); });
  return state;
}

Result<State> TensorParallel::gather_state(Rank to) {
  comm::OpOptions op = slices().options().op;
  op.label = "state";
  State state;
  MUSTER_ASSIGN(state.model,
                gathered_model_.gather(*communicator_, own_part(model_state()), to, op));
  MUSTER_ASSIGN(state.optimizer,
                gathered_optimizer_.gather(*communicator_, own_part(optimizer_state()), to, op));
  std::vector<std::string> owners;
  for (const auto* parameters : {&model().parameters(), &model().frozen()})
    for (const models::Parameter& parameter : *parameters) owners.push_back(parameter.name);
  sort_by_owner(owners, state.model);
  sort_by_owner(owners, state.optimizer);
  return state;
}

std::uint64_t TensorParallel::optimizer_bytes(std::int32_t) {
  return update_->optimizer().state_bytes();
}

void TensorParallel::fall_behind() {
  MUSTER_CHECK(false, "parts of tensors are not given to newcomers");
}

Status TensorParallel::warm_up(const data::StepBatch&) {
  return fail(ErrorCode::kUnsupported, "[parallel/tensor] nobody joins a group of ranks");
}

}  // namespace muster::parallel
