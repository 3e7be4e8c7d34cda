#include "muster/parallel/sharded.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "muster/base/check.h"
#include "muster/parallel/exchanged_shards.h"
#include "muster/parallel/fixed_group.h"
#include "muster/parallel/scattered_shards.h"
#include "muster/parallel/state_order.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {
namespace {

using layout::Axis;

SliceOptions with_notes_apart(SliceOptions options) {
  options.bucket_sizes.first_slot_alone = true;
  return options;
}

// Ranks of a replica next to each other.
Result<MeshPlace> place_of(const comm::Group& group, std::int32_t shards) {
  layout::MeshExtents extents;
  extents[Axis::kReplicate] = layout::kRest;
  extents[Axis::kShard] = shards;
  MUSTER_ASSIGN(auto mesh, layout::Mesh::create(extents, group.size));
  return MeshPlace{std::move(mesh), group};
}

}  // namespace

Result<std::unique_ptr<Sharded>> Sharded::create(std::unique_ptr<models::Model> model,
                                                 optim::CreateOptimizer create_optimizer,
                                                 SliceOptions options, Clock& clock,
                                                 std::optional<std::int32_t> shards) {
  std::unique_ptr<Sharded> sharded(
      new Sharded(std::move(model), std::move(options), clock, shards));
  MUSTER_ASSIGN(sharded->optimizer_,
                ShardedOptimizer::create(sharded->model().parameters(), std::move(create_optimizer),
                                         sharded->on_lanes_));
  return sharded;
}

Sharded::Sharded(std::unique_ptr<models::Model> model, SliceOptions options, Clock& clock,
                 std::optional<std::int32_t> shards)
    : SliceStrategy(std::move(model), with_notes_apart(std::move(options)), clock),
      shards_(shards),
      layout_(slices().bucket_layout()),
      on_lanes_(lanes_runner()) {}

Status Sharded::cut(const comm::Group& group) {
  MUSTER_ASSIGN(MeshPlace place, place_of(group, shards_of(group.size)));
  const Rank shard{place.along(Axis::kShard)};
  const std::int32_t shards = place.mesh.extent(Axis::kShard);
  if (options().shard_gradients && shards == 1 && group.size > 1)
    return fail(ErrorCode::kUnsupported,
                "[parallel/sharded] one shard has nobody to share gradients with (stage 1)");
  ShardPlan plan = optimizer_->plan_for(layout_, shards);
  std::vector<at::Tensor> rows;
  if (options().shard_weights) {
    weights_ = std::make_unique<HeldWeights>(model(), layout_, plan, shard, options().bucket_sizes);
    rows = weights_->rows();
    mirror() = {};  // parameters are nowhere whole any more
  }
  MUSTER_TRY(optimizer_->keep(std::move(plan), shard, std::move(rows)));
  place_ = std::move(place);
  return ok();
}

Status Sharded::enter(std::shared_ptr<comm::Communicator> communicator,
                      const comm::LeafOwners& owners) {
  const comm::Group group = communicator->group();
  MUSTER_TRY(is_cut() ? check_same_place(place_->group, group, "sharded",
                                         "the optimizer's state is cut for {} ranks")
                      : cut(group));
  if (communicator != communicator_) {
    MUSTER_ASSIGN(peers_, Peers::connect(communicator, *place_, {Axis::kReplicate, Axis::kShard}));
    communicator_ = std::move(communicator);
  }
  const BucketShards shards =
      options().shard_gradients ? BucketShards() : shards_of_exchange(optimizer_->plan(), peers_);
  MUSTER_TRY(slices().enter(peers_.all(), peers_.owners(owners), shards));
  optimizer_->meet(peers_.one_of_each(), options().op);
  if (options().shard_gradients) {
    MUSTER_TRY(share_gradients(owners));
    summed_ = std::make_unique<ScatteredShards>(slices().shard_exchange(), layout_, *optimizer_);
  } else {
    summed_ = std::make_unique<ExchangedShards>(slices().exchange(), peers_, *optimizer_);
  }
  summed_->lay_under();
  return ok();
}

// Among the ranks of a replica, each of which owns a shard of the gradients of its slices.
Status Sharded::share_gradients(const comm::LeafOwners& owners) {
  auto here = shard_owners(peers_, optimizer_->plan(), peers_.owners(owners), options().ordered);
  std::unique_ptr<WeightGathers> gathers;
  if (weights_) {
    MUSTER_ASSIGN(gathers, weights_->gathers(*here.ranks, options().compute, options().op));
  }
  return slices().share_gradients(std::move(here), std::move(gathers));
}

const SliceOptions& Sharded::options() const noexcept { return slices().options(); }

Result<StepReport> Sharded::step(const StepInput& input) {
  StepReport report;
  MUSTER_TRY(slices().compute(input, report));
  MUSTER_TRY(summed_->gather_sums());
  MUSTER_ASSIGN(const std::vector<double> squares, optimizer_->squared_norms());
  MUSTER_ASSIGN(const auto divisor, slices().check_and_clip(input, squares, report));
  if (!divisor) return report;
  const auto apply = [&] { return update(input.learning_rate, *divisor); };
  MUSTER_TRY(timed_update(input, report, apply));
  if (!weights_) report.bytes_reduced += summed_->shared_bytes();
  return report;
}

Status Sharded::update(double learning_rate, double divisor) {
  gathered_model_.forget();  // whoever read it has finished
  gathered_optimizer_.forget();
  MUSTER_TRY(optimizer_->update(learning_rate, divisor));
  apply_statistics(slices().summed_statistics());
  if (!weights_) return summed_->share(optimizer_->rows(), on_lanes_);
  weights_->rows_changed();
  return ok();
}

void Sharded::loaded(std::int64_t steps) {
  mirror().write_back();
  if (weights_) weights_->loaded();
  optimizer_->loaded(steps);
}

// What this rank has of the parameters.
std::vector<at::Tensor> Sharded::held() {
  if (weights_) return optimizer_->rows();
  std::vector<at::Tensor> tensors;
  for (const models::Parameter& parameter : model().parameters())
    tensors.push_back(parameter.tensor.detach());
  return tensors;
}

void Sharded::use_trained() {
  const std::vector<at::Tensor> into = held();
  for (std::size_t p = 0; p < trained_.size(); ++p) copy_over(trained_[p], into[p]);
  if (weights_) weights_->rows_changed();
  trained_.clear();
}

Status Sharded::use_average(bool average) {
  mirror().changed();
  if (!average) {
    use_trained();
    return ok();
  }
  if (!trained_.empty()) return ok();
  if (optimizer_->average().size() != optimizer_->pieces().size())
    return fail(ErrorCode::kInvalid, "[parallel] no average is kept");
  for (const at::Tensor& tensor : held()) trained_.push_back(tensor.clone());
  const Status used = use_average_of_all();
  if (!used) use_trained();  // some buckets may have come
  return used;
}

// Where nobody holds more than its shard, it comes with the next gathers.
Status Sharded::use_average_of_all() {
  const std::vector<at::Tensor>& averages = optimizer_->average();
  if (!weights_) return summed_->share(averages, on_lanes_);
  const auto& rows = optimizer_->rows();
  for (std::size_t i = 0; i < rows.size(); ++i) copy_over(averages[i], rows[i]);
  weights_->rows_changed();
  return ok();
}

std::vector<StateSlice> Sharded::optimizer_state() { return optimizer_->state(); }

std::vector<StateSlice> Sharded::model_state() {
  if (!weights_) return SliceStrategy::model_state();
  std::vector<StateSlice> state = weights_->state();
  std::ranges::move(replicated_state(), std::back_inserter(state));
  return state;
}

std::vector<StateSlice> Sharded::replicated_state() {
  if (!weights_) return model_state();
  std::vector<StateSlice> state;
  for (const models::Statistic& statistic : model().statistics())
    state.push_back(whole_slice(statistic.name, statistic.tensor));
  return state;
}

// In the order of model_state().
std::vector<std::string> Sharded::state_names() const {
  std::vector<std::string> names;
  for (const auto* parameters : {&model().parameters(), &model().frozen()})
    for (const models::Parameter& parameter : *parameters) names.push_back(parameter.name);
  for (const models::Statistic& statistic : model().statistics()) names.push_back(statistic.name);
  return names;
}

Result<State> Sharded::gather_state(Rank to) {
  if (optimizer_->shards() == 1) return State{model_state(), optimizer_state()};
  comm::Communicator& communicator = *communicator_;
  const std::vector<std::string> names = state_names();
  State state;
  MUSTER_ASSIGN(state.optimizer, gathered_optimizer_.gather(communicator, optimizer_state(), to,
                                                            op_for("optimizer state")));
  sort_by_owner(names, state.optimizer);
  if (!weights_) {
    state.model = model_state();
    return state;
  }
  MUSTER_ASSIGN(state.model,
                gathered_model_.gather(communicator, model_state(), to, op_for("weights")));
  sort_by_owner(names, state.model);
  return state;
}

comm::OpOptions Sharded::op_for(std::string_view label) {
  comm::OpOptions op = slices().options().op;
  op.label = label;
  return op;
}

std::uint64_t Sharded::optimizer_bytes(std::int32_t ranks) {
  return optimizer_->state_bytes() * static_cast<std::uint64_t>(optimizer_->shards()) /
         static_cast<std::uint64_t>(shards_of(ranks));
}

std::uint64_t Sharded::gradient_bytes(std::int32_t ranks) {
  const std::uint64_t whole = SliceStrategy::gradient_bytes(ranks);
  if (!options().shard_gradients) return whole;
  const std::int32_t units =
      options().ordered ? options().virtual_workers : ranks * slices().lanes();
  const std::int32_t shards = shards_of(ranks), replicas = ranks / shards;
  return scattered_bytes(whole, units / replicas, shards, slices().lanes());
}

std::uint64_t Sharded::weight_bytes(std::int32_t ranks) {
  const std::uint64_t whole = SliceStrategy::weight_bytes(ranks);
  if (!options().shard_weights) return whole;
  return whole / static_cast<std::uint64_t>(shards_of(ranks)) + widest_two_blocks(model());
}

Sharded::WeightMemory Sharded::measured_weights() const {
  return {.shards = weights_->bytes(),
          .whole = slices().gathers().most_bytes(),
          .whole_now = slices().gathers().bytes_here()};
}

Sharded::GradientMemory Sharded::measured_gradients() {
  const ShardExchange& exchange = slices().shard_exchange();
  return {exchange.sum_bytes(), exchange.window_bytes()};
}

void Sharded::fall_behind() { MUSTER_CHECK(false, "shards are not given to newcomers"); }

}  // namespace muster::parallel
