// Which schedule an operation gets. The thresholds are where the curves of the cost model cross
// (latency of the rounds against bytes sent), per wire.

#include "muster/base/check.h"
#include "muster/comm/schedule.h"

namespace muster::comm {
namespace {

// Up to here one round of everything to everybody beats more, smaller rounds.
constexpr std::int64_t kDirectBytesMemory = 4 * 1024;
constexpr std::int64_t kDirectBytesTcp = 16 * 1024;
// From here the ring's neighbour traffic beats fewer rounds over distant ranks.
constexpr std::int64_t kRingBytes = 4 * 1024 * 1024;
// From here a chain of pieces beats a tree of whole messages.
constexpr std::int64_t kChainBytes = 1024 * 1024;

bool in_tree(const Op& op) noexcept {
  if (const auto* reduce = std::get_if<AllReduce>(&op)) return reduce->tree != nullptr;
  const auto* scatter = std::get_if<ReduceScatter>(&op);
  return scatter != nullptr && scatter->tree != nullptr;
}

bool has_schedule(const Op& op, Algorithm algorithm) noexcept {
  if (algorithm == Algorithm::kAuto) return false;
  if (in_tree(op)) return false;
  if (std::holds_alternative<AllReduce>(op)) return true;
  if (std::holds_alternative<Broadcast>(op)) return algorithm != Algorithm::kHalvingDoubling;
  if (std::holds_alternative<ReduceScatter>(op) || std::holds_alternative<AllGather>(op))
    return algorithm != Algorithm::kTree;
  return false;
}

Algorithm choose_broadcast(std::int64_t bytes, std::int32_t size) noexcept {
  if (size <= 2) return Algorithm::kDirect;
  return bytes >= kChainBytes ? Algorithm::kRing : Algorithm::kTree;
}

}  // namespace

std::string_view name(Algorithm algorithm) noexcept {
  switch (algorithm) {
    case Algorithm::kAuto:
      return "auto";
    case Algorithm::kRing:
      return "ring";
    case Algorithm::kTree:
      return "tree";
    case Algorithm::kHalvingDoubling:
      return "halving_doubling";
    case Algorithm::kDirect:
      return "direct";
  }
  return "?";
}

std::int64_t bytes_per_rank(const Op& op, std::int32_t size) noexcept {
  const auto bytes = [](const TensorView& view) {
    return static_cast<std::int64_t>(view.bytes.size());
  };
  const auto row = [](const Shards& shards, const TensorView& view) {
    return shards.count() * static_cast<std::int64_t>(size_of(view.dtype));
  };
  if (const auto* o = std::get_if<AllReduce>(&op)) return bytes(o->buffer);
  if (const auto* o = std::get_if<ReduceScatter>(&op))
    return o->shards ? row(*o->shards, o->input) / size : bytes(o->output);
  if (const auto* o = std::get_if<AllGather>(&op)) return bytes(o->output);
  if (const auto* o = std::get_if<Broadcast>(&op)) return bytes(o->buffer);
  if (const auto* o = std::get_if<AllToAll>(&op)) return bytes(o->output);
  return 0;
}

Algorithm choose_algorithm(const Op& op, Algorithm wish, std::int64_t bytes, std::int32_t size,
                           Wire wire) noexcept {
  if (has_schedule(op, wish)) return wish;
  if (std::holds_alternative<Broadcast>(op)) return choose_broadcast(bytes, size);
  const bool reduces =
      std::holds_alternative<AllReduce>(op) || std::holds_alternative<ReduceScatter>(op);
  if (!reduces && !std::holds_alternative<AllGather>(op)) return Algorithm::kDirect;
  const std::int64_t direct = wire == Wire::kTcp ? kDirectBytesTcp : kDirectBytesMemory;
  if (bytes <= direct) return Algorithm::kDirect;
  return bytes >= kRingBytes && size > 2 ? Algorithm::kRing : Algorithm::kHalvingDoubling;
}

Schedule make_schedule(const Op& op, Algorithm algorithm, Position me) {
  if (const auto* o = std::get_if<AllReduce>(&op)) {
    if (!o->tree) return all_reduce_schedule(algorithm, me, o->buffer.count());
    return ordered_all_reduce_schedule(*o->tree, me.rank,
                                       o->buffer.count() / o->tree->rows(me.rank));
  }
  if (const auto* o = std::get_if<ReduceScatter>(&op)) {
    if (o->tree) return ordered_reduce_scatter_schedule(*o->tree, me.rank, *o->shards);
    return o->shards ? reduce_scatter_schedule(algorithm, me, *o->shards)
                     : reduce_scatter_schedule(algorithm, me, o->output.count());
  }
  if (const auto* o = std::get_if<AllGather>(&op))
    return o->shards ? all_gather_schedule(algorithm, me, *o->shards)
                     : all_gather_schedule(algorithm, me, o->input.count());
  if (const auto* o = std::get_if<Broadcast>(&op))
    return broadcast_schedule(algorithm, me, o->root, o->buffer.count());
  if (const auto* o = std::get_if<AllToAll>(&op))
    return all_to_all_schedule(me, o->input.count() / me.size);
  MUSTER_CHECK(std::holds_alternative<Barrier>(op), "send and recv have no schedule");
  return barrier_schedule(me);
}

}  // namespace muster::comm
