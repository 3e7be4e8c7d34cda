// Which operation can run how, and its schedule.

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "muster/base/check.h"
#include "muster/comm/schedule/plan.h"

namespace muster::comm {
namespace {

using Kind = Collective::Kind;

// In one level; between hosts the same.
std::vector<Algorithm> algorithms_of(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return {Algorithm::kDirect,
              Algorithm::kTree,
              Algorithm::kHalvingDoubling,
              Algorithm::kBidirectionalRing,
              Algorithm::kRing,
              Algorithm::kDoubleTree};
    case Kind::kReduceScatter:
    case Kind::kAllGather:
      return {Algorithm::kDirect, Algorithm::kHalvingDoubling, Algorithm::kBidirectionalRing,
              Algorithm::kRing};
    case Kind::kBroadcast:
      return {Algorithm::kDirect, Algorithm::kTree, Algorithm::kRing};
    case Kind::kAllToAll:
      return {Algorithm::kPairwise, Algorithm::kBruck};
    case Kind::kBarrier:
      break;
  }
  return {Algorithm::kDirect};
}

std::vector<Algorithm> inner_algorithms_of(Kind kind) {
  std::vector<Algorithm> inner = algorithms_of(kind);
  std::erase(inner, Algorithm::kDoubleTree);
  return inner;
}

bool has_levels(Kind kind) noexcept { return kind != Kind::kAllToAll && kind != Kind::kBarrier; }

Shards even_shards(std::int64_t count, std::int32_t size) {
  Shards shards{{0}};
  for (std::int32_t rank = 0; rank < size; ++rank)
    shards.begin.push_back(shards.begin.back() +
                           even_slice(Space::kOutput, count, size, rank).count);
  return shards;
}

bool in_levels(const Method& method) noexcept {
  return method.algorithm == Algorithm::kHierarchical;
}

Schedule make(const AllReduce& op, const Method& method, Position me, const Topology& topology) {
  if (op.tree)
    return ordered_all_reduce_schedule(*op.tree, me.rank,
                                       op.buffer.count() / op.tree->rows(me.rank));
  if (in_levels(method))
    return two_level_all_reduce_schedule(method, topology, me.rank, op.buffer.count());
  return all_reduce_schedule(method.algorithm, me, op.buffer.count());
}

Schedule make(const ReduceScatter& op, const Method& method, Position me,
              const Topology& topology) {
  if (op.tree) return ordered_reduce_scatter_schedule(*op.tree, me.rank, *op.shards);
  if (in_levels(method))
    return two_level_reduce_scatter_schedule(
        method, topology, me.rank, op.shards ? *op.shards : even_shards(op.input.count(), me.size));
  return op.shards ? reduce_scatter_schedule(method.algorithm, me, *op.shards)
                   : reduce_scatter_schedule(method.algorithm, me, op.output.count());
}

Schedule make(const AllGather& op, const Method& method, Position me, const Topology& topology) {
  if (in_levels(method))
    return two_level_all_gather_schedule(
        method, topology, me.rank,
        op.shards ? *op.shards : even_shards(op.output.count(), me.size));
  return op.shards ? all_gather_schedule(method.algorithm, me, *op.shards)
                   : all_gather_schedule(method.algorithm, me, op.input.count());
}

Schedule make(const Broadcast& op, const Method& method, Position me, const Topology& topology) {
  if (in_levels(method))
    return two_level_broadcast_schedule(method, topology, me.rank, op.root, op.buffer.count());
  return broadcast_schedule(method.algorithm, me, op.root, op.buffer.count());
}

Schedule make(const AllToAll& op, const Method& method, Position me, const Topology&) {
  return all_to_all_schedule(method.algorithm, me, op.input.count() / me.size);
}

Schedule make(const Barrier&, const Method&, Position me, const Topology&) {
  return barrier_schedule(me);
}

template <class Message>
Schedule make(const Message&, const Method&, Position, const Topology&) {
  MUSTER_CHECK(false, "send and recv have no schedule");
  return {};
}

Collective of(Kind kind, const TensorView& larger) {
  return {kind, larger.count(), size_of(larger.dtype)};
}

}  // namespace

std::string describe(const Method& method) {
  if (!in_levels(method)) return std::string(name(method.algorithm));
  return fmt::format("{} ({} inside, {} between)", name(method.algorithm), name(method.inner),
                     name(method.outer));
}

Collective collective_of(const Op& op) {
  Collective found;
  if (const auto* o = std::get_if<AllReduce>(&op)) {
    found = of(Kind::kAllReduce, o->buffer);
    found.ordered = o->tree != nullptr;
  } else if (const auto* o2 = std::get_if<ReduceScatter>(&op)) {
    found = of(Kind::kReduceScatter, o2->input);
    found.ordered = o2->tree != nullptr;
  } else if (const auto* o3 = std::get_if<AllGather>(&op)) {
    found = of(Kind::kAllGather, o3->output);
  } else if (const auto* o4 = std::get_if<Broadcast>(&op)) {
    found = of(Kind::kBroadcast, o4->buffer);
    found.root = o4->root;
  } else if (const auto* o5 = std::get_if<AllToAll>(&op)) {
    found = of(Kind::kAllToAll, o5->input);
  }
  return found;
}

std::vector<Method> methods_of(Kind kind, const Topology& topology) {
  std::vector<Method> methods;
  for (const Algorithm algorithm : algorithms_of(kind)) methods.push_back({algorithm});
  if (!has_levels(kind) || !topology.has_two_levels()) return methods;
  for (const Algorithm inner : inner_algorithms_of(kind))
    for (const Algorithm outer : algorithms_of(kind))
      methods.push_back({Algorithm::kHierarchical, inner, outer});
  return methods;
}

Schedule make_schedule(const Collective& collective, const Method& method, Rank rank,
                       const Topology& topology) {
  const std::int64_t count = collective.count;
  const TensorView none;
  const TensorView all{DType::kU8, {count}, {}};
  const auto shards = [&] {
    return std::make_shared<const Shards>(even_shards(count, topology.size()));
  };
  MUSTER_CHECK(!collective.ordered, "a sum along a tree has no schedule without the tree");
  switch (collective.kind) {
    case Kind::kAllReduce:
      return make_schedule(AllReduce{all}, method, rank, topology);
    case Kind::kReduceScatter:
      return make_schedule(ReduceScatter{none, all, Reduce::kSum, shards()}, method, rank,
                           topology);
    case Kind::kAllGather:
      return make_schedule(AllGather{all, none, shards()}, method, rank, topology);
    case Kind::kBroadcast:
      return make_schedule(Broadcast{all, collective.root}, method, rank, topology);
    case Kind::kAllToAll:
      return make_schedule(AllToAll{all, all}, method, rank, topology);
    case Kind::kBarrier:
      break;
  }
  return barrier_schedule({rank, topology.size()});
}

Schedule make_schedule(const Op& op, const Method& method, Rank rank, const Topology& topology) {
  return std::visit(
      [&](const auto& o) {
        return make(o, method, Position{rank, topology.size()}, topology);
      },
      op);
}

}  // namespace muster::comm
