#pragma once
// A schedule: what one rank sends, receives, reduces and copies to take part in one collective. A
// plain value computed from (operation, algorithm, rank, size, count); it knows no network, so
// tests and the simulator play it in memory, a cost model prices it, one executor runs it.
// Steps are in program order; messages between a pair of ranks match in order. Pure, thread-safe.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/base/ids.h"
#include "muster/comm/op.h"
#include "muster/comm/sum_tree.h"
#include "muster/comm/topology.h"

namespace muster::comm {

// Which memory a slice lies in. In-place operations have one tensor, kOutput.
enum class Space : std::uint8_t { kInput, kOutput, kScratch };

struct Slice {  // elements [begin, begin + count) of a space
  Space space = Space::kOutput;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  friend bool operator==(const Slice&, const Slice&) = default;
};

struct ScheduleStep {
  enum class Kind : std::uint8_t {
    kSend,    // `from` to `peer`; later steps may not change `from` before it has left
    kRecv,    // from `peer` into `to`
    kReduce,  // to = to (+) from
    kCopy,    // to = from
  };
  Kind kind;
  Rank peer = kNoRank;
  Slice from{};
  Slice to{};
  friend bool operator==(const ScheduleStep&, const ScheduleStep&) = default;
};

struct Schedule {
  std::int64_t scratch = 0;  // elements
  std::vector<ScheduleStep> steps;
};

struct Position {  // whose schedule
  Rank rank{0};
  std::int32_t size = 1;
};

// How a collective runs.
struct Method {
  Algorithm algorithm = Algorithm::kAuto;
  // Of kHierarchical: among the ranks of a host, and between hosts.
  Algorithm inner = Algorithm::kAuto;
  Algorithm outer = Algorithm::kAuto;
  friend bool operator==(const Method&, const Method&) = default;
};
std::string describe(const Method& method);  // "hierarchical (ring inside, double_tree between)"

// Elements [0, count) cut into `parts` contiguous ranges that differ by at most one.
Slice even_slice(Space space, std::int64_t count, std::int32_t parts, std::int32_t index) noexcept;

// In place on kOutput [count].
//  kRing: 2(n-1) messages, 2(n-1)/n·count elements (Patarasu, Yuan 2009).
//  kBidirectionalRing: the same elements in 2⌊n/2⌋ rounds, to both neighbours in each (Chan,
//   Heimlich, Purkayastha, van de Geijn 2007).
//  kHalvingDoubling: 2⌈log₂n⌉ rounds, the same volume, any n: circulant graph (Träff 2024,
//   "Optimal, non-pipelined reduce-scatter and all-reduce"); for powers of two the cost of
//   Thakur, Rabenseifner, Gropp 2005.
//  kTree: binomial reduce and broadcast, ≤ 2⌈log₂n⌉ rounds of count elements.
//  kDoubleTree: up and down two binary trees, half of the elements each, in pieces; who passes on
//   in one is a leaf in the other (Sanders, Speck, Träff 2009, "Two-tree algorithms for full
//   bandwidth broadcast, reduction and scan"; the trees are NCCL's): ≤ 2·count elements.
//  kDirect: everybody sends everything to everybody: one round, (n-1)·count elements.
Schedule all_reduce_schedule(Algorithm algorithm, Position me, std::int64_t count);

// In place on kOutput [rows(rank), count]; the total, in the tree's order, ends in row 0. The
// owner of an element range collects it from every part and finishes the tree; then an all-gather.
Schedule ordered_all_reduce_schedule(const SumTree& tree, Rank rank, std::int64_t count);

// The first half of that: kInput [rows(rank), shards.count()] to kOutput, this rank's shard.
Schedule ordered_reduce_scatter_schedule(const SumTree& tree, Rank rank, const Shards& shards);

// kInput [size · count] to kOutput [count]: kRing, kBidirectionalRing, kHalvingDoubling, kDirect;
// each rank sends (size-1)·count elements.
Schedule reduce_scatter_schedule(Algorithm algorithm, Position me, std::int64_t count);
// The same with shards: kInput [shards.count()].
Schedule reduce_scatter_schedule(Algorithm algorithm, Position me, const Shards& shards);
// kInput [count] to kOutput [size · count]: the same algorithms and elements.
Schedule all_gather_schedule(Algorithm algorithm, Position me, std::int64_t count);
// The same with shards: kInput, this rank's, to kOutput [shards.count()].
Schedule all_gather_schedule(Algorithm algorithm, Position me, const Shards& shards);
// In place on kOutput [count]: kTree, kRing (a chain), kDirect.
Schedule broadcast_schedule(Algorithm algorithm, Position me, Rank root, std::int64_t count);
// Both [size · count]. kPairwise: n-1 messages of a block. kBruck: ⌈log₂n⌉ messages of n/2 blocks
// (Bruck, Ho, Kipnis, Upfal, Weathersby 1997).
Schedule all_to_all_schedule(Algorithm algorithm, Position me, std::int64_t count);
// kInput [leaving.count()], cut by receiver, to kOutput [arriving.count()], cut by sender, in any
// sizes; nobody need know what others exchange. Pairwise.
Schedule all_to_all_schedule(Position me, const Shards& leaving, const Shards& arriving);

// In two levels: method.inner among the ranks of each host, method.outer between hosts, of which
// each rank of a host carries its share. Any number of hosts, of ranks on each, in any order.
//  All-reduce: inner as for a reduce-scatter, or kTree (then the first rank of each host carries
//  all); outer any but kHierarchical. Reduce-scatter and all-gather: both as for one level.
//  Broadcast: both as for one level, outer from the root to a rank of each other host.
Schedule two_level_all_reduce_schedule(const Method& method, const Topology& topology, Rank rank,
                                       std::int64_t count);
Schedule two_level_reduce_scatter_schedule(const Method& method, const Topology& topology,
                                           Rank rank, const Shards& shards);
Schedule two_level_all_gather_schedule(const Method& method, const Topology& topology, Rank rank,
                                       const Shards& shards);
Schedule two_level_broadcast_schedule(const Method& method, const Topology& topology, Rank rank,
                                      Rank root, std::int64_t count);

// ⌈log₂n⌉ rounds of empty messages (dissemination: Hensgen, Finkel, Manber 1988).
Schedule barrier_schedule(Position me);

// An operation without its memory, alike on all ranks.
struct Collective {
  enum class Kind : std::uint8_t {
    kAllReduce,
    kReduceScatter,
    kAllGather,
    kBroadcast,
    kAllToAll,
    kBarrier,
  };
  Kind kind = Kind::kBarrier;
  std::int64_t count = 0;  // elements of the larger side: of all blocks together
  std::size_t width = 1;   // bytes of an element
  Rank root{0};            // of a broadcast
  bool ordered = false;    // it sums along a tree, in the one way there is
};
// `op`: neither Send nor Recv.
Collective collective_of(const Op& op);

// Every way in which it can run over `topology`; in two levels only where there are two.
std::vector<Method> methods_of(Collective::Kind kind, const Topology& topology);

// The schedule of a collective (everything but Send and Recv) as `rank` plays it.
Schedule make_schedule(const Op& op, const Method& method, Rank rank, const Topology& topology);
// Without memory, its blocks as even as they can be. Not of ordered sums.
Schedule make_schedule(const Collective& collective, const Method& method, Rank rank,
                       const Topology& topology);

}  // namespace muster::comm
