#include "muster/parallel/expert/expert_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "muster/base/check.h"
#include "muster/models/torch_error.h"
#include "muster/parallel/check_and_clip.h"
#include "muster/parallel/combine.h"
#include "muster/parallel/fixed_group.h"
#include "muster/parallel/state_order.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

using layout::Axis;

Error unsupported(std::string text) {
  return fail(ErrorCode::kUnsupported, "[parallel/expert] " + std::move(text));
}

Status check_passes(const SliceOptions& options, const layout::Mesh& mesh) {
  if (mesh.extent(Axis::kExpert) == 1) return ok();
  const std::int32_t with_slices = mesh.size() / mesh.extent(Axis::kTensor);
  if (options.virtual_workers % with_slices != 0)
    return unsupported(fmt::format("{} slices cannot be dealt evenly to {} ranks",
                                   options.virtual_workers, with_slices));
  if (options.micro_batch_size > 0)
    return unsupported(
        "ranks would have different numbers of passes with micro-batches; more "
        "virtual workers make passes smaller as well");
  return ok();
}

}  // namespace

Result<std::unique_ptr<ExpertParallel>> ExpertParallel::create(
    std::unique_ptr<models::Model> model, const optim::CreateOptimizer& create_optimizer,
    SliceOptions options, const MeshPlace& place, Clock& clock) {
  MUSTER_CHECK(options.lanes == 1, "lanes would meet other lanes of the group");
  MUSTER_CHECK(options.ordered && !options.elastic && !options.backup, "all run as many passes");
  MUSTER_TRY(check_passes(options, place.mesh));
  options.bucket_sizes = sizes_for_shards(options.bucket_sizes, place.mesh.extent(Axis::kShard));
  Groups groups{.experts = std::make_unique<DealtExperts>(place, options.op),
                .together = std::make_unique<const Together>(
                    place, TogetherOptions{.cuts_sequence = false, .op = options.op})};
  options.runs_empty = groups.experts->are_dealt();
  const std::int64_t parameter_count = model->parameter_count();
  MUSTER_TRY(groups.together->cut(*model));
  Whole whole = note(*model, groups.experts->share().size);
  whole.parameter_count = parameter_count;
  MUSTER_TRY(groups.experts->deal(*model, *model));
  model->initialize(options.seed);
  std::unique_ptr<ExpertParallel> strategy(new ExpertParallel(
      std::move(model), std::move(groups), std::move(whole), place, std::move(options), clock));
  MUSTER_TRY(strategy->build(create_optimizer));
  return strategy;
}

ExpertParallel::Whole ExpertParallel::note(const models::Model& model, std::int32_t ranks) {
  Whole whole;
  whole.parameters = model.parameters();
  const std::int64_t experts = model.expert_count();
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

ExpertParallel::ExpertParallel(std::unique_ptr<models::Model> model, Groups groups, Whole whole,
                               MeshPlace place, SliceOptions options, Clock& clock)
    : SliceStrategy(std::move(model), std::move(options), clock),
      place_(std::move(place)),
      experts_(std::move(groups.experts)),
      together_(std::move(groups.together)),
      whole_(std::move(whole)) {}

Status ExpertParallel::build(const optim::CreateOptimizer& create) {
  MUSTER_ASSIGN(of_all_, PeerUpdate::create({.parameters = model().parameters(),
                                             .layout = slices().bucket_layout(),
                                             .place = place_},
                                            create, lanes_runner()));
  together_->complete_norms(of_all_->optimizer());
  return experts_->create_update(create, slices().options().bucket_sizes, *together_,
                                 lanes_runner());
}

std::vector<PeerUpdate*> ExpertParallel::updates() const {
  std::vector<PeerUpdate*> updates{of_all_.get()};
  if (PeerUpdate* const of_experts = experts_->update()) updates.push_back(of_experts);
  return updates;
}

void ExpertParallel::loaded(std::int64_t steps) {
  mirror().write_back();
  for (PeerUpdate* const update : updates()) update->loaded(steps);
}

Status ExpertParallel::connect(const std::shared_ptr<comm::Communicator>& communicator) {
  MUSTER_TRY(together_->connect(*communicator));
  MUSTER_TRY(experts_->connect(communicator));
  MUSTER_ASSIGN(all_peers_, Peers::connect(communicator, place_,
                                           {Axis::kReplicate, Axis::kShard, Axis::kExpert}));
  communicator_ = communicator;
  return ok();
}

Status ExpertParallel::enter(std::shared_ptr<comm::Communicator> communicator,
                             const comm::LeafOwners& owners) {
  MUSTER_TRY(check_same_place(place_.group, communicator->group(), "expert",
                              "the experts lie on {} ranks"));
  if (communicator != communicator_) MUSTER_TRY(connect(communicator));
  const SliceOptions& options = slices().options();
  MUSTER_TRY(
      slices().enter(all_peers_.all(), all_peers_.owners(owners), of_all_->shards_for(all_peers_)));
  of_all_->enter(all_peers_, slices().exchange(), options.op);
  return experts_->enter(owners, {Axis::kTensor});
}

Result<StepReport> ExpertParallel::step(const StepInput& input) {
  StepReport report;
  together_->take_bytes();  // of evaluations
  experts_->begin(input.timeout);
  MUSTER_TRY(compute(input, report));
  report.bytes_reduced += experts_->take_bytes() + together_->take_bytes();
  MUSTER_ASSIGN(std::vector<double> of_parts, squared_norms());
  MUSTER_ASSIGN(const std::vector<double> squares,
                together_->agree(whole_.parameters, std::move(of_parts), report));
  MUSTER_ASSIGN(const auto divisor,
                parallel::check_and_clip(input, whole_.trained, squares,
                                         slices().options().max_grad_norm, report));
  if (!divisor) return report;
  MUSTER_TRY(timed_update(input, report, [&] { return update(input.learning_rate, *divisor); }));
  return report;
}

Status ExpertParallel::compute(const StepInput& input, StepReport& report) {
  const Status computed = slices().compute(input, report);
  if (!computed) return cause_of(computed.error());
  MUSTER_TRY(experts_->finish());
  MUSTER_TRY(of_all_->gather_sums());
  return together_->sum_addends(*of_all_);  // experts with adapters, which have some, are not dealt
}

// What is behind `error`, of which libtorch passes on no more than the text.
Error ExpertParallel::cause_of(Error error) const {
  if (auto of_experts = experts_->take_failure()) return *std::move(of_experts);
  return together_->cause_of(std::move(error));
}

// Of all parameters of the whole model, of which this rank's part: an expert's is its holder's to
// say.
Result<std::vector<double>> ExpertParallel::squared_norms() {
  MUSTER_ASSIGN(std::vector<double> here, of_all_->squared_norms());
  if (PeerUpdate* const held = experts_->update()) {
    MUSTER_ASSIGN(const std::vector<double> of_experts, held->squared_norms());
    here.insert(here.end(), of_experts.begin(), of_experts.end());
  }
  if (holds_all_experts()) return here;
  std::vector<double> own(whole_.trained.size());
  std::size_t whole = 0, held = model().parameters().size();
  for (std::size_t p = 0; p < own.size(); ++p) {
    const std::int32_t holder = whole_.holders[p];
    if (holder < 0)
      own[p] = here[whole++];
    else if (holder == experts_->share().rank)
      own[p] = here[held++];
  }
  at::Tensor all;
  const Status told = models::catch_torch("parallel/expert", [&] {
    const TensorView view{DType::kF64, {std::ssize(own)}, std::as_writable_bytes(std::span(own))};
    all = experts_->gather(tensor_over(view), "norms");
  });
  if (!told) return cause_of(told.error());
  const auto numbers = view_over(all).as<const double>();
  for (std::size_t p = 0; p < own.size(); ++p)
    if (whole_.holders[p] >= 0)
      own[p] = numbers[static_cast<std::size_t>(whole_.holders[p]) * own.size() + p];
  return own;
}

Status ExpertParallel::update(double learning_rate, double divisor) {
  gathered_model_.forget();  // whoever read it has finished
  gathered_optimizer_.forget();
  for (PeerUpdate* const update : updates()) MUSTER_TRY(update->update(learning_rate, divisor));
  apply_statistics(slices().summed_statistics());
  return ok();
}

Status ExpertParallel::use_average(bool average) {
  mirror().changed();
  MUSTER_TRY(of_all_->use_average(average));
  PeerUpdate* const of_experts = experts_->update();
  if (of_experts == nullptr) return ok();
  Status used = of_experts->use_average(average);
  if (!used && average) MUSTER_TRY(of_all_->use_average(false));
  return used;
}

Status ExpertParallel::evaluate(const data::StepBatch& batch,
                                std::span<EvaluationTotals> by_slice) {
  Status evaluated = SliceStrategy::evaluate(batch, by_slice);
  if (evaluated) return evaluated;
  return cause_of(evaluated.error());
}

Result<EvaluationTotals> ExpertParallel::combine(std::span<const EvaluationTotals> by_slice) {
  return combine_totals(*communicator_, together_->by_leaf(by_slice), model().measures(),
                        slices().options().op);
}

std::vector<StateSlice> ExpertParallel::model_state() {
  std::vector<StateSlice> state = SliceStrategy::model_state();
  sort_by_owner(whole_.owners, state);
  return state;
}

std::vector<StateSlice> ExpertParallel::optimizer_state() {
  std::vector<StateSlice> state;
  for (PeerUpdate* const update : updates())
    std::ranges::move(update->optimizer().state(), std::back_inserter(state));
  sort_by_owner(whole_.owners, state);
  return state;
}

Result<State> ExpertParallel::gather_state(Rank to) {
  comm::OpOptions op = slices().options().op;
  op.label = "state";
  const auto model_here = together_->own_part(model_state(), this->model());
  MUSTER_ASSIGN(auto model, gathered_model_.gather(*communicator_, model_here, to, op));
  const auto optimizer_here = together_->own_part(optimizer_state(), this->model());
  MUSTER_ASSIGN(auto optimizer, gathered_optimizer_.gather(*communicator_, optimizer_here, to, op));
  sort_by_owner(whole_.owners, model);
  sort_by_owner(whole_.owners, optimizer);
  return State{std::move(model), std::move(optimizer)};
}

// What all ranks hold.
std::vector<StateSlice> ExpertParallel::replicated_state() {
  if (!holds_all_tensors()) return {};
  std::vector<StateSlice> state = shards() > 1 ? model_state() : SliceStrategy::replicated_state();
  if (holds_all_experts()) return state;
  std::set<std::string> experts;
  for (const auto* list : {&model().expert_parameters(), &model().frozen()})
    for (const models::Parameter& parameter : *list)
      if (parameter.partition.expert >= 0) experts.insert(parameter.name);
  std::erase_if(state,
                [&](const StateSlice& slice) { return experts.contains(owner_in(slice.name)); });
  return state;
}

std::uint64_t ExpertParallel::optimizer_bytes(std::int32_t) {
  std::uint64_t bytes = 0;
  for (PeerUpdate* const update : updates()) bytes += update->optimizer().state_bytes();
  return bytes;
}

void ExpertParallel::fall_behind() { MUSTER_CHECK(false, "experts are not given to newcomers"); }

Status ExpertParallel::warm_up(const data::StepBatch&) {
  return unsupported("nobody joins a group of ranks");
}

}  // namespace muster::parallel
