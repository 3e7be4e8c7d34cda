#include "muster/parallel/expert/expert_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "muster/base/check.h"
#include "muster/models/torch_error.h"
#include "muster/optim/clip.h"
#include "muster/parallel/check_and_clip.h"
#include "muster/parallel/fixed_group.h"
#include "muster/parallel/state_order.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

using layout::Axis;

Error unsupported(std::string text) {
  return fail(ErrorCode::kUnsupported, "[parallel/expert] " + std::move(text));
}

Status check_passes(const SliceOptions& options, std::int32_t ranks, std::int32_t workers) {
  if (ranks == 1) return ok();
  if (options.virtual_workers % workers != 0)
    return unsupported(fmt::format("{} slices cannot be dealt evenly to {} ranks",
                                   options.virtual_workers, workers));
  if (options.micro_batch_size > 0)
    return unsupported(
        "ranks would have different numbers of passes with micro-batches; more "
        "virtual workers make passes smaller as well");
  return ok();
}

}  // namespace

Result<std::unique_ptr<ExpertParallel>> ExpertParallel::create(
    std::unique_ptr<models::Model> model, std::int32_t ranks,
    const optim::CreateOptimizer& create_optimizer, SliceOptions options, const comm::Group& group,
    Clock& clock) {
  MUSTER_CHECK(options.lanes == 1, "lanes would meet other lanes of the group");
  MUSTER_CHECK(options.ordered && !options.elastic && !options.backup, "all run as many passes");
  MUSTER_ASSIGN(const layout::Mesh mesh, mesh_of_replicas(Axis::kExpert, ranks, group.size));
  MUSTER_TRY(check_passes(options, ranks, group.size));
  options.runs_empty = ranks > 1;
  const models::TensorShare share{mesh.coordinates(group.rank)[Axis::kExpert], ranks};
  const auto held = std::make_shared<ExpertRanks>(share, options.op);
  Whole whole = note(*model, ranks);
  MUSTER_TRY(model->share_experts(held));
  model->initialize(options.seed);
  std::unique_ptr<ExpertParallel> strategy(new ExpertParallel(
      std::move(model), held, std::move(whole), {mesh, group}, std::move(options), clock));
  MUSTER_TRY(strategy->build(create_optimizer));
  return strategy;
}

ExpertParallel::Whole ExpertParallel::note(const models::Model& model, std::int32_t ranks) {
  Whole whole;
  whole.parameter_count = model.parameter_count();
  std::int64_t experts = 0;
  for (const models::Parameter& parameter : model.parameters())
    experts = std::max(experts, parameter.partition.expert + 1);
  for (const models::Parameter& parameter : model.parameters()) {
    const std::int64_t expert = parameter.partition.expert;
    whole.trained.push_back(parameter.name);
    whole.holders.push_back(expert < 0 ? -1 : static_cast<std::int32_t>(expert * ranks / experts));
  }
  whole.owners = whole.trained;
  for (const models::Parameter& parameter : model.frozen()) whole.owners.push_back(parameter.name);
  for (const models::Statistic& statistic : model.statistics())
    whole.owners.push_back(statistic.name);
  return whole;
}

ExpertParallel::ExpertParallel(std::unique_ptr<models::Model> model,
                               std::shared_ptr<ExpertRanks> ranks, Whole whole, Places places,
                               SliceOptions options, Clock& clock)
    : SliceStrategy(std::move(model), std::move(options), clock),
      mesh_(places.mesh),
      group_(places.group),
      ranks_(std::move(ranks)),
      whole_(std::move(whole)),
      experts_(this->model().expert_parameters()) {
  ranks_->deliver_to(
      [this](const at::Tensor& parameter, std::int32_t source, const at::Tensor& gradient) {
        experts_.found(parameter, source, gradient);
      });
}

// What all hold, then the experts here.
std::vector<const models::Parameter*> ExpertParallel::trained_here() const {
  std::vector<const models::Parameter*> here;
  for (const auto* list : {&model().parameters(), &model().expert_parameters()})
    for (const models::Parameter& parameter : *list) here.push_back(&parameter);
  return here;
}

Status ExpertParallel::build(const optim::CreateOptimizer& create) {
  std::vector<optim::OptimizedParameter> parameters;
  for (const models::Parameter* parameter : trained_here())
    parameters.push_back({parameter->name, parameter->tensor, parameter->decays});
  MUSTER_ASSIGN(optimizer_, create(std::move(parameters)));
  return ok();
}

Status ExpertParallel::enter(std::shared_ptr<comm::Communicator> communicator,
                             const comm::LeafOwners& owners) {
  const comm::Group group = communicator->group();
  MUSTER_TRY(check_same_place(group_, group, "expert", "the experts lie on {} ranks"));
  MUSTER_TRY(slices().enter(communicator, owners));
  const auto together = mesh_.part(group.rank, {Axis::kExpert});
  const auto alike = mesh_.part(group.rank, {Axis::kReplicate});
  MUSTER_ASSIGN(auto ranks, communicator->split(together.color, together.key));
  ranks_->use(std::move(ranks));
  MUSTER_ASSIGN(auto replicas, communicator->split(alike.color, alike.key));
  communicator_ = std::move(communicator);
  comm::LeafOwners replica_of(owners.size());
  std::ranges::transform(owners, replica_of.begin(), [&](Rank owner) {
    return Rank{mesh_.coordinates(owner)[Axis::kReplicate]};
  });
  const SliceOptions& options = slices().options();
  MUSTER_TRY(experts_.enter(std::move(replicas), replica_of, slices_of_ranks(owners),
                            options.bucket_sizes, options.op));
  gradients_ = gradients_over_sums();
  std::ranges::move(experts_.gradients(), std::back_inserter(gradients_));
  return ok();
}

// Of the ranks of this one's replica.
std::vector<std::vector<std::int32_t>> ExpertParallel::slices_of_ranks(
    const comm::LeafOwners& owners) const {
  std::vector<std::vector<std::int32_t>> slices;
  for (const Rank rank : mesh_.group(group_.rank, {Axis::kExpert})) {
    slices.emplace_back();
    for (std::size_t slice = 0; slice < owners.size(); ++slice)
      if (owners[slice] == rank) slices.back().push_back(static_cast<std::int32_t>(slice));
    MUSTER_CHECK(slices.back().size() == slices.front().size(), "as many slices for each rank");
  }
  return slices;
}

Result<StepReport> ExpertParallel::step(const StepInput& input) {
  StepReport report;
  ranks_->take_bytes();  // of evaluations
  experts_.begin(input.timeout);
  MUSTER_TRY(compute(input, report));
  report.bytes_reduced += ranks_->take_bytes() + experts_.bytes();
  MUSTER_ASSIGN(const std::vector<double> squares, squared_norms());
  MUSTER_ASSIGN(const auto divisor,
                parallel::check_and_clip(input, whole_.trained, squares,
                                         slices().options().max_grad_norm, report));
  if (!divisor) return report;
  MUSTER_TRY(timed_update(input, report, [&] { return update(input.learning_rate, *divisor); }));
  return report;
}

Status ExpertParallel::compute(const StepInput& input, StepReport& report) {
  const Status computed = slices().compute(input, report);
  if (computed) return experts_.finish();
  return ranks_->take_failure().value_or(computed.error());
}

// Of all parameters of the whole model: an expert's is its holder's to say.
Result<std::vector<double>> ExpertParallel::squared_norms() {
  std::vector<double> own(whole_.trained.size());
  std::size_t whole = 0, held = model().parameters().size();
  for (std::size_t p = 0; p < own.size(); ++p) {
    const std::int32_t holder = whole_.holders[p];
    if (holder >= 0 && holder != ranks_->share().rank && !holds_all()) continue;
    own[p] = optim::squared_norm(gradients_[holder < 0 || holds_all() ? whole++ : held++]);
  }
  if (holds_all()) return own;
  at::Tensor all;
  const Status told = models::catch_torch("parallel/expert", [&] {
    const TensorView view{DType::kF64, {std::ssize(own)}, std::as_writable_bytes(std::span(own))};
    all = ranks_->gather(tensor_over(view), "norms");
  });
  if (!told) return ranks_->take_failure().value_or(told.error());
  const auto numbers = view_over(all).as<const double>();
  for (std::size_t p = 0; p < own.size(); ++p)
    if (whole_.holders[p] >= 0)
      own[p] = numbers[static_cast<std::size_t>(whole_.holders[p]) * own.size() + p];
  return own;
}

Status ExpertParallel::update(double learning_rate, double divisor) {
  gathered_model_.forget();  // whoever read it has finished
  gathered_optimizer_.forget();
  optimizer_->begin_step(learning_rate);
  MUSTER_TRY(slices().on_lanes(gradients_.size(), [&](std::size_t begin, std::size_t end) {
    optimizer_->update({begin, end}, std::span(gradients_).subspan(begin, end - begin), divisor);
  }));
  apply_statistics(slices().summed_statistics());
  return ok();
}

Status ExpertParallel::use_average(bool average) {
  if (average == uses_average_) return ok();
  MUSTER_TRY(swap_parameters(optimizer_->average()));
  uses_average_ = average;
  return ok();
}

Status ExpertParallel::evaluate(const data::StepBatch& batch,
                                std::span<EvaluationTotals> by_slice) {
  Status evaluated = SliceStrategy::evaluate(batch, by_slice);
  if (evaluated) return evaluated;
  return ranks_->take_failure().value_or(evaluated.error());
}

std::vector<StateSlice> ExpertParallel::model_state() {
  std::vector<StateSlice> state = SliceStrategy::model_state();
  for (const models::Parameter& parameter : model().expert_parameters())
    state.push_back(whole_slice(parameter.name, parameter.tensor));
  sort_by_owner(whole_.owners, state);
  return state;
}

std::vector<StateSlice> ExpertParallel::optimizer_state() {
  std::vector<StateSlice> state;
  for (const optim::StateTensor& tensor : optimizer_->state())
    state.push_back(whole_slice(tensor.name, tensor.tensor));
  sort_by_owner(whole_.owners, state);
  return state;
}

Result<State> ExpertParallel::gather_state(Rank to) {
  comm::OpOptions op = slices().options().op;
  op.label = "state";
  MUSTER_ASSIGN(auto model, gathered_model_.gather(*communicator_, model_state(), to, op));
  MUSTER_ASSIGN(auto optimizer,
                gathered_optimizer_.gather(*communicator_, optimizer_state(), to, op));
  sort_by_owner(whole_.owners, model);
  sort_by_owner(whole_.owners, optimizer);
  return State{std::move(model), std::move(optimizer)};
}

// What all ranks hold.
std::vector<StateSlice> ExpertParallel::replicated_state() {
  std::vector<StateSlice> state = SliceStrategy::replicated_state();
  if (holds_all()) return state;
  std::set<std::string> experts;
  for (const auto* list : {&model().expert_parameters(), &model().frozen()})
    for (const models::Parameter& parameter : *list)
      if (parameter.partition.expert >= 0) experts.insert(parameter.name);
  std::erase_if(state,
                [&](const StateSlice& slice) { return experts.contains(owner_in(slice.name)); });
  return state;
}

std::uint64_t ExpertParallel::optimizer_bytes(std::int32_t) { return optimizer_->state_bytes(); }

void ExpertParallel::fall_behind() { MUSTER_CHECK(false, "experts are not given to newcomers"); }

Status ExpertParallel::warm_up(const data::StepBatch&) {
  return unsupported("nobody joins a group of ranks");
}

}  // namespace muster::parallel
