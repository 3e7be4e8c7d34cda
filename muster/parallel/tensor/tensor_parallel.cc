#include "muster/parallel/tensor/tensor_parallel.h"

#include <algorithm>
#include <utility>

#include "muster/base/check.h"
#include "muster/models/torch_error.h"
#include "muster/optim/clip.h"
#include "muster/parallel/fixed_group.h"
#include "muster/parallel/state_order.h"
#include "muster/parallel/tensor/tensor_state.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

using layout::Axis;

}  // namespace

Result<std::unique_ptr<TensorParallel>> TensorParallel::create(
    std::unique_ptr<models::Model> model, Cut cut, const optim::CreateOptimizer& create_optimizer,
    SliceOptions options, const comm::Group& group, Clock& clock) {
  MUSTER_CHECK(options.lanes == 1, "lanes would meet other lanes of the group");
  MUSTER_CHECK(options.ordered && !options.elastic && !options.backup, "all run the same slices");
  MUSTER_ASSIGN(const layout::Mesh mesh, mesh_of_replicas(Axis::kTensor, cut.ranks, group.size));
  const models::TensorShare share{mesh.coordinates(group.rank)[Axis::kTensor], cut.ranks};
  const auto held = std::make_shared<TensorRanks>(share, options.op, cut.sequence);
  const std::int64_t parameter_count = model->parameter_count();
  MUSTER_TRY(model->split(held));
  model->initialize(options.seed);
  std::unique_ptr<TensorParallel> strategy(
      new TensorParallel(std::move(model), held, {mesh, group}, std::move(options), clock));
  MUSTER_TRY(strategy->build(create_optimizer, parameter_count));
  return strategy;
}

TensorParallel::TensorParallel(std::unique_ptr<models::Model> model,
                               std::shared_ptr<TensorRanks> ranks, Places places,
                               SliceOptions options, Clock& clock)
    : SliceStrategy(std::move(model), std::move(options), clock),
      mesh_(places.mesh),
      group_(places.group),
      ranks_(std::move(ranks)) {}

Status TensorParallel::build(const optim::CreateOptimizer& create, std::int64_t parameter_count) {
  parameter_count_ = parameter_count;
  std::vector<optim::OptimizedParameter> parameters;
  for (const models::Parameter& parameter : model().parameters())
    parameters.push_back({parameter.name, parameter.tensor, parameter.decays});
  MUSTER_ASSIGN(optimizer_, create(std::move(parameters)));
  if (!holds_all() && optimizer_->norm_scaled() != nullptr)
    return fail(ErrorCode::kUnsupported,
                "[parallel/tensor] the optimizer takes norms of whole tensors, of which each rank "
                "has a part; take sgd or adamw");
  return ok();
}

Status TensorParallel::enter(std::shared_ptr<comm::Communicator> communicator,
                             const comm::LeafOwners& owners) {
  const comm::Group group = communicator->group();
  MUSTER_TRY(check_same_place(group_, group, "tensor", "the tensors lie on {} ranks"));
  if (communicator != communicator_) {
    const auto together = mesh_.part(group.rank, {Axis::kTensor});
    const auto alike = mesh_.part(group.rank, {Axis::kReplicate});
    MUSTER_ASSIGN(auto ranks, communicator->split(together.color, together.key));
    ranks_->use(std::move(ranks));
    MUSTER_ASSIGN(replicas_, communicator->split(alike.color, alike.key));
    communicator_ = std::move(communicator);
  }
  comm::LeafOwners replica_of(owners.size());
  std::ranges::transform(owners, replica_of.begin(), [&](Rank owner) {
    return Rank{mesh_.coordinates(owner)[Axis::kReplicate]};
  });
  MUSTER_TRY(slices().enter(replicas_, replica_of));
  gradients_ = gradients_over_sums();
  return ok();
}

Result<StepReport> TensorParallel::step(const StepInput& input) {
  StepReport report;
  ranks_->take_bytes();  // of evaluations
  MUSTER_TRY(compute(input, report));
  if (ranks_->cuts_sequence()) MUSTER_TRY(sum_what_is_whole());
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

// Where sequences are cut each rank has the gradients of its positions.
Status TensorParallel::sum_what_is_whole() {
  std::vector<at::Tensor> parts;
  for (std::size_t p = 0; p < gradients_.size(); ++p)
    if (!model().parameters()[p].cut.is_part()) parts.push_back(gradients_[p]);
  if (parts.empty() || holds_all()) return ok();
  const Status summed = models::catch_torch("parallel/tensor", [&] {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& part : parts) flat.push_back(part.flatten());
    const at::Tensor sum = ranks_->sum(at::cat(flat), "gradients");
    std::int64_t begin = 0;
    for (at::Tensor& part : parts) {
      part.copy_(sum.narrow(0, begin, part.numel()).view_as(part));
      begin += part.numel();
    }
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
  for (const at::Tensor& gradient : gradients_) own.push_back(optim::squared_norm(gradient));
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
  optimizer_->begin_step(learning_rate);
  return slices().on_lanes(gradients_.size(), [&](std::size_t begin, std::size_t end) {
    optimizer_->update({begin, end}, std::span(gradients_).subspan(begin, end - begin), divisor);
  });
}

Status TensorParallel::use_average(bool average) {
  if (average == uses_average_) return ok();
  MUSTER_TRY(swap_parameters(optimizer_->average()));
  uses_average_ = average;
  return ok();
}

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

const models::TensorCut& TensorParallel::cut_of(const std::string& parameter) const {
  return std::ranges::find(model().parameters(), parameter, &models::Parameter::name)->cut;
}

// Each of the optimizer's tensors is cut as its parameter.
std::vector<StateSlice> TensorParallel::optimizer_state() {
  std::vector<StateSlice> state;
  for (const optim::StateTensor& tensor : optimizer_->state())
    add_slices(state, tensor.name, tensor.tensor, cut_of(owner_in(tensor.name)));
  return state;
}

Result<State> TensorParallel::gather_state(Rank to) {
  comm::OpOptions op = slices().options().op;
  op.label = "state";
  MUSTER_ASSIGN(auto model, gathered_model_.gather(*communicator_, model_state(), to, op));
  MUSTER_ASSIGN(auto optimizer,
                gathered_optimizer_.gather(*communicator_, optimizer_state(), to, op));
  return State{std::move(model), std::move(optimizer)};
}

std::uint64_t TensorParallel::optimizer_bytes(std::int32_t) { return optimizer_->state_bytes(); }

void TensorParallel::fall_behind() {
  MUSTER_CHECK(false, "parts of tensors are not given to newcomers");
}

Status TensorParallel::warm_up(const data::StepBatch&) {
  return fail(ErrorCode::kUnsupported, "[parallel/tensor] nobody joins a group of ranks");
}

}  // namespace muster::parallel
