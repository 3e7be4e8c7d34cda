#include "muster/parallel/expert/dealt_experts.h"

#include <utility>

#include "muster/base/check.h"

namespace muster::parallel {
namespace {

using layout::Axis;

// By rank along `expert` of this one's group the slices that it computes, in order.
std::vector<std::vector<std::int32_t>> slices_by_rank(const MeshPlace& place,
                                                      const comm::LeafOwners& owners,
                                                      const std::vector<Axis>& together) {
  std::vector<std::vector<std::int32_t>> slices;
  for (const Rank holder : place.mesh.group(place.group.rank, {Axis::kExpert})) {
    const Rank rank = place.first_of(holder, together);
    slices.emplace_back();
    for (std::size_t slice = 0; slice < owners.size(); ++slice)
      if (owners[slice] == rank) slices.back().push_back(static_cast<std::int32_t>(slice));
    MUSTER_CHECK(slices.back().size() == slices.front().size(), "as many slices for each rank");
  }
  return slices;
}

}  // namespace

DealtExperts::DealtExperts(MeshPlace place, const comm::OpOptions& op)
    : place_(std::move(place)),
      op_(op),
      ranks_(std::make_shared<ExpertRanks>(
          models::TensorShare{place_.along(Axis::kExpert), place_.mesh.extent(Axis::kExpert)},
          op)) {}

Status DealtExperts::deal(models::Model& model, const models::Model& whole) {
  const bool has_none = model.expert_count() == 0 && whole.expert_count() > 0;
  if (are_dealt() && !has_none) MUSTER_TRY(model.share_experts(ranks_));
  held_.emplace(model.expert_parameters());
  ranks_->deliver_to(
      [this](const at::Tensor& parameter, std::int32_t source, const at::Tensor& gradient) {
        held_->found(parameter, source, gradient);
      });
  return ok();
}

Status DealtExperts::create_update(const optim::CreateOptimizer& create, BucketSizes sizes,
                                   const Together& together, OnLanes on_lanes) {
  sizes_ = sizes;
  if (!held_->any()) return ok();
  MUSTER_ASSIGN(update_, PeerUpdate::create({.parameters = held_->parameters(),
                                             .layout = plan_buckets(held_->slot_counts(), sizes),
                                             .place = place_},
                                            create, std::move(on_lanes)));
  together.complete_norms(update_->optimizer());
  return ok();
}

Status DealtExperts::connect(const std::shared_ptr<comm::Communicator>& ranks) {
  if (!are_dealt()) return ok();
  const auto group = place_.part({Axis::kExpert});
  MUSTER_ASSIGN(auto along, ranks->split(group.color, group.key));
  ranks_->use(std::move(along));
  MUSTER_ASSIGN(holders_, Peers::connect(ranks, place_, {Axis::kReplicate, Axis::kShard}));
  return ok();
}

Status DealtExperts::enter(const comm::LeafOwners& owners, const std::vector<Axis>& together) {
  if (!are_dealt()) return ok();
  MUSTER_TRY(held_->enter({.replicas = holders_.all(),
                           .owners = holders_.owners(owners),
                           .slices = slices_by_rank(place_, owners, together),
                           .shards = update_ ? update_->shards_for(holders_) : BucketShards()},
                          sizes_, op_));
  if (update_) update_->enter(holders_, held_->exchange(), op_);
  return ok();
}

void DealtExperts::begin(std::optional<Duration> timeout) {
  ranks_->take_bytes();  // of evaluations
  held_->begin(timeout);
}

Status DealtExperts::finish() {
  MUSTER_TRY(held_->finish());
  return update_ ? update_->gather_sums() : ok();
}

}  // namespace muster::parallel
