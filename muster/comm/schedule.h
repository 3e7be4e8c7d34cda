#pragma once
// A schedule: what one rank sends, receives, reduces and copies to take part in one collective. A
// plain value computed from (operation, algorithm, rank, size, count); it knows no network, so
// tests and the simulator play it in memory, a cost model prices it, one executor runs it.
// Steps are in program order; messages between a pair of ranks match in order. Pure, thread-safe.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "muster/base/ids.h"
#include "muster/comm/op.h"
#include "muster/comm/sum_tree.h"

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

// Elements [0, count) cut into `parts` contiguous ranges that differ by at most one.
Slice even_slice(Space space, std::int64_t count, std::int32_t parts, std::int32_t index) noexcept;

// In place on kOutput [count].
//  kRing: 2(n-1) messages, 2(n-1)/n·count elements (Patarasu, Yuan 2009).
//  kHalvingDoubling: 2⌈log₂n⌉ rounds, the same volume, any n: circulant graph (Träff 2024,
//   "Optimal, non-pipelined reduce-scatter and all-reduce"); for powers of two the cost of
//   Thakur, Rabenseifner, Gropp 2005.
//  kTree: binomial reduce and broadcast, ≤ 2⌈log₂n⌉ rounds of count elements.
//  kDirect: everybody sends everything to everybody: one round, (n-1)·count elements.
Schedule all_reduce_schedule(Algorithm algorithm, Position me, std::int64_t count);

// In place on kOutput [rows(rank), count]; the total, in the tree's order, ends in row 0. The
// owner of an element range collects it from every part and finishes the tree; then an all-gather.
Schedule ordered_all_reduce_schedule(const SumTree& tree, Rank rank, std::int64_t count);

// The first half of that: kInput [rows(rank), shards.count()] to kOutput, this rank's shard.
Schedule ordered_reduce_scatter_schedule(const SumTree& tree, Rank rank, const Shards& shards);

// kInput [size · count] to kOutput [count]: kRing, kHalvingDoubling, kDirect.
Schedule reduce_scatter_schedule(Algorithm algorithm, Position me, std::int64_t count);
// The same with shards: kInput [shards.count()].
Schedule reduce_scatter_schedule(Algorithm algorithm, Position me, const Shards& shards);
// kInput [count] to kOutput [size · count]: kRing, kHalvingDoubling, kDirect.
Schedule all_gather_schedule(Algorithm algorithm, Position me, std::int64_t count);
// The same with shards: kInput, this rank's, to kOutput [shards.count()].
Schedule all_gather_schedule(Algorithm algorithm, Position me, const Shards& shards);
// In place on kOutput [count]: kTree, kRing (a chain), kDirect.
Schedule broadcast_schedule(Algorithm algorithm, Position me, Rank root, std::int64_t count);
// Both [size · count]; pairwise, n-1 messages.
Schedule all_to_all_schedule(Position me, std::int64_t count);
// ⌈log₂n⌉ rounds of empty messages (dissemination: Hensgen, Finkel, Manber 1988).
Schedule barrier_schedule(Position me);

std::string_view name(Algorithm algorithm) noexcept;  // "halving_doubling", as in a job file

// What moves a collective's bytes.
enum class Wire : std::uint8_t { kMemory, kTcp };

// What an operation moves for each rank, alike on all of them: what choose_algorithm goes by.
std::int64_t bytes_per_rank(const Op& op, std::int32_t size) noexcept;

// The algorithm for an operation of `bytes` per rank. A wish (OpOptions::algorithm) is granted
// where the operation has such a schedule; otherwise the choice is as for kAuto. Never returns
// kAuto.
Algorithm choose_algorithm(const Op& op, Algorithm wish, std::int64_t bytes, std::int32_t size,
                           Wire wire) noexcept;

// The schedule of a collective (everything but Send and Recv) as `rank` of `size` plays it.
Schedule make_schedule(const Op& op, Algorithm algorithm, Position me);

}  // namespace muster::comm
