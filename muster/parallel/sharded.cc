#include "muster/parallel/sharded.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/check.h"
#include "muster/layout/shard_turns.h"
#include "muster/parallel/fixed_group.h"
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

// Frozen parameters have buckets of their own, in which nothing but weights ever travels. Returns
// this rank's rows of those that are trained.
std::vector<at::Tensor> Sharded::cut_weights(const ShardPlan& plan, Rank rank) {
  const std::vector<models::Parameter>& frozen = model().frozen();
  BucketSizes sizes = options().bucket_sizes;
  sizes.dtype = DType::kF32;
  const BucketLayout layout = plan_block_buckets(model(), frozen, 0, sizes);
  const auto ranks = static_cast<std::int32_t>(plan.pieces.size());
  frozen_shards_ = std::make_unique<WeightShards>(
      frozen, layout, plan_shards(layout, cells_by_slot(frozen), ranks), rank);
  trained_shards_ = std::make_unique<WeightShards>(model().parameters(), layout_, plan, rank);
  mirror() = {};  // parameters are nowhere whole any more
  return trained_shards_->rows();
}

Result<std::unique_ptr<WeightGathers>> Sharded::make_gathers(
    comm::Communicator& communicator) const {
  if (!options().shard_weights) return std::unique_ptr<WeightGathers>();
  std::vector<WeightBucket> buckets;
  trained_shards_->append_to(buckets);
  frozen_shards_->append_to(buckets);
  auto needed = buckets_needed(model(), buckets);
  return WeightGathers::create(communicator, std::move(buckets), std::move(needed), options().op);
}

Status Sharded::cut(const comm::Group& group) {
  MUSTER_ASSIGN(MeshPlace place, place_of(group, shards_of(group.size)));
  const Rank shard{place.along(Axis::kShard)};
  const std::int32_t shards = place.mesh.extent(Axis::kShard);
  if (options().shard_gradients && shards == 1 && group.size > 1)
    return fail(ErrorCode::kUnsupported,
                "[parallel/sharded] one shard has nobody to share gradients with (stage 1)");
  ShardPlan plan = optimizer_->plan_for(layout_, shards);
  std::vector<at::Tensor> rows;
  if (options().shard_weights) rows = cut_weights(plan, shard);
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
  if (options().shard_gradients) MUSTER_TRY(share_gradients(owners));
  optimizer_->meet(peers_.one_of_each(), options().op);
  lay_under();
  return ok();
}

// Among the ranks of a replica, each of which owns a shard of the gradients of its slices.
Status Sharded::share_gradients(const comm::LeafOwners& owners) {
  const Rank me = place_->group.rank;
  const auto replica = [&](Rank rank) {
    return Rank{place_->mesh.coordinates(rank)[Axis::kReplicate]};
  };
  SliceGradients::ShardOwners here{
      .ranks = peers_.shards() == 1 ? peers_.all() : peers_.one_of_each(),
      .shards = optimizer_->plan().shards,
      .owners = {}};
  comm::LeafOwners replicas;
  for (const Rank owner : owners) {
    replicas.push_back(replica(owner));
    const Rank shard{place_->mesh.coordinates(owner)[Axis::kShard]};
    here.owners.push_back(replica(owner) == replica(me) ? shard : kNoRank);
  }
  if (peers_.copies() > 1) {
    here.copies = peers_.alike();
    if (options().ordered)
      here.tree = std::make_shared<const comm::SumTree>(replicas, peers_.copies());
  }
  MUSTER_ASSIGN(auto gathers, make_gathers(*here.ranks));
  return slices().share_gradients(std::move(here), std::move(gathers));
}

const SliceOptions& Sharded::options() const noexcept { return slices().options(); }

void Sharded::lay_under() {
  if (!options().shard_gradients) {
    exchanged_ = std::make_unique<ExchangedShards>(slices().exchange(), peers_, *optimizer_);
    return exchanged_->lay_under();
  }
  const ShardPlan& plan = optimizer_->plan();
  optimizer_->lay_over([&](const ShardPiece& piece) {
    const BucketSlot& place = layout_.slots[static_cast<std::size_t>(piece.slot)];
    const std::int64_t first =
        plan.shards[static_cast<std::size_t>(place.bucket)]->begin_of(optimizer_->shard());
    return slices()
        .shard_exchange()
        .sum(place.bucket)
        .subspan(static_cast<std::size_t>(place.offset + piece.begin - first),
                 static_cast<std::size_t>(piece.count));
  });
}

Result<StepReport> Sharded::step(const StepInput& input) {
  StepReport report;
  MUSTER_TRY(slices().compute(input, report));
  if (exchanged_) MUSTER_TRY(exchanged_->gather_sums());
  MUSTER_ASSIGN(const std::vector<double> squares, optimizer_->squared_norms());
  MUSTER_ASSIGN(const auto divisor, slices().check_and_clip(input, squares, report));
  if (!divisor) return report;
  const auto apply = [&] { return update(input.learning_rate, *divisor); };
  MUSTER_TRY(timed_update(input, report, apply));
  if (options().shard_gradients && !trained_shards_) report.bytes_reduced += shared_bytes();
  return report;
}

// Its shard of the updated weights, to each of the others.
std::uint64_t Sharded::shared_bytes() const {
  std::int64_t own = 0;
  for (const auto& shards : optimizer_->plan().shards)
    if (shards) own += shards->count_of(optimizer_->shard());
  return static_cast<std::uint64_t>(own) * sizeof(float) *
         static_cast<std::uint64_t>(optimizer_->shards() - 1);
}

Status Sharded::update(double learning_rate, double divisor) {
  gathered_model_.forget();  // whoever read it has finished
  gathered_optimizer_.forget();
  MUSTER_TRY(optimizer_->update(learning_rate, divisor));
  apply_statistics(slices().summed_statistics());
  if (!trained_shards_) return share(optimizer_->rows());
  trained_shards_->rows_changed();
  return ok();
}

void Sharded::loaded(std::int64_t steps) {
  mirror().write_back();
  for (WeightShards* const shards : {trained_shards_.get(), frozen_shards_.get()})
    if (shards != nullptr) shards->loaded();
  optimizer_->loaded(steps);
}

// `rows`: this rank's, of all parameters together; the model gets those of all ranks.
Status Sharded::share(const std::vector<at::Tensor>& rows) {
  return exchanged_ ? exchanged_->share(rows, on_lanes_) : share_by_bucket(rows);
}

// A few buckets at a time, so that there is no need for memory for all of them.
Status Sharded::share_by_bucket(const std::vector<at::Tensor>& rows) {
  const auto bucket_of = [&](std::int32_t slot) {
    return layout_.slots[static_cast<std::size_t>(slot)].bucket;
  };
  const auto& pieces = optimizer_->pieces();
  const auto put = [&](std::int32_t bucket, std::span<float> shard) {
    const auto& shards = *optimizer_->plan().shards[static_cast<std::size_t>(bucket)];
    const std::int64_t first = shards.begin_of(optimizer_->shard());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (bucket_of(pieces[i].slot) != bucket) continue;
      const std::int64_t offset = layout_.slots[static_cast<std::size_t>(pieces[i].slot)].offset;
      copy_over(rows[i], shard.subspan(static_cast<std::size_t>(offset + pieces[i].begin - first),
                                       static_cast<std::size_t>(pieces[i].count)));
    }
  };
  const auto& parameters = model().parameters();
  const auto take = [&](std::int32_t bucket, std::span<const float> whole) {
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const BucketSlot& place = layout_.slots[static_cast<std::size_t>(slices().slot_of(p))];
      if (place.bucket == bucket)
        copy_over(whole.subspan(static_cast<std::size_t>(place.offset),
                                static_cast<std::size_t>(place.count)),
                  parameters[p].tensor);
    }
  };
  return slices().shard_exchange().gather(put, take);
}

// What this rank has of the parameters.
std::vector<at::Tensor> Sharded::held() {
  if (trained_shards_) return optimizer_->rows();
  std::vector<at::Tensor> tensors;
  for (const models::Parameter& parameter : model().parameters())
    tensors.push_back(parameter.tensor.detach());
  return tensors;
}

void Sharded::use_trained() {
  const std::vector<at::Tensor> into = held();
  for (std::size_t p = 0; p < trained_.size(); ++p) copy_over(trained_[p], into[p]);
  if (trained_shards_) trained_shards_->rows_changed();
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
  if (!trained_shards_) return share(averages);
  const auto& rows = optimizer_->rows();
  for (std::size_t i = 0; i < rows.size(); ++i) copy_over(averages[i], rows[i]);
  trained_shards_->rows_changed();
  return ok();
}

std::vector<StateSlice> Sharded::optimizer_state() { return optimizer_->state(); }

std::vector<StateSlice> Sharded::model_state() {
  if (!trained_shards_) return SliceStrategy::model_state();
  std::vector<StateSlice> state = trained_shards_->state();
  std::ranges::move(frozen_shards_->state(), std::back_inserter(state));
  std::ranges::move(replicated_state(), std::back_inserter(state));
  return state;
}

std::vector<StateSlice> Sharded::replicated_state() {
  if (!trained_shards_) return model_state();
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
  if (!trained_shards_) {
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
  const std::int32_t sums = layout::sums_held(units / replicas, shards * slices().lanes());
  return whole * static_cast<std::uint64_t>(sums) / static_cast<std::uint64_t>(shards);
}

std::uint64_t Sharded::weight_bytes(std::int32_t ranks) {
  const std::uint64_t whole = SliceStrategy::weight_bytes(ranks);
  if (!options().shard_weights) return whole;
  return whole / static_cast<std::uint64_t>(shards_of(ranks)) + widest_two_blocks(model());
}

Sharded::WeightMemory Sharded::measured_weights() const {
  return {.shards = trained_shards_->bytes() + frozen_shards_->bytes(),
          .whole = slices().gathers().most_bytes(),
          .whole_now = slices().gathers().bytes_here()};
}

Sharded::GradientMemory Sharded::measured_gradients() {
  const ShardExchange& exchange = slices().shard_exchange();
  return {exchange.sum_bytes(), exchange.window_bytes()};
}

void Sharded::fall_behind() { MUSTER_CHECK(false, "shards are not given to newcomers"); }

}  // namespace muster::parallel
