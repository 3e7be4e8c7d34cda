#pragma once
// The eight collective and point-to-point operations, as values. Tensors are contiguous; their
// bytes belong to the caller and stay untouched by it until the operation's Work is done. Every
// rank of the group submits the same operations in the same order with matching shapes and dtypes
// (Send and Recv pair up by peer and tag).

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/ids.h"
#include "muster/base/tensor_view.h"
#include "muster/comm/sum_tree.h"

namespace muster::comm {

// kAvg divides by the group's size after summing; on integers it rounds towards zero.
enum class Reduce : std::uint8_t { kSum, kAvg, kMin, kMax, kProduct };

// How a row of elements is cut among the ranks, in any sizes: rank r has [begin[r], begin[r + 1]).
struct Shards {
  std::vector<std::int64_t> begin;  // of each rank's, ascending from 0, and the end of the last

  std::int32_t size() const noexcept { return static_cast<std::int32_t>(begin.size()) - 1; }
  std::int64_t count() const noexcept { return begin.back(); }  // of the row
  std::int64_t begin_of(Rank rank) const noexcept {
    return begin[static_cast<std::size_t>(to_int(rank))];
  }
  std::int64_t count_of(Rank rank) const noexcept {
    return begin[static_cast<std::size_t>(to_int(rank)) + 1] - begin_of(rank);
  }
};

// In place: afterwards every rank's buffer holds the reduction over all ranks.
// With a tree (ordered mode, see sum_tree.h), `buffer` is [rows(rank), …]: row i holds the
// caller's i-th aligned partial sum (of a rank without any: nothing), only kSum is allowed, and the
// total, summed in exactly the tree's order, is left in row 0 of every rank; the other rows are
// undefined afterwards.
struct AllReduce {
  TensorView buffer;
  Reduce reduce = Reduce::kSum;
  std::shared_ptr<const SumTree> tree = nullptr;  // none: any order
};

// input: [size * output], rank-major; rank r receives the reduction of block r.
// With shards, input is [1, count], or with a tree [rows(rank), count] as for AllReduce, and rank r
// receives its shard of the row; output may be where that shard lies in row 0 of input, whose other
// elements stay undefined.
struct ReduceScatter {
  TensorView output;
  TensorView input;
  Reduce reduce = Reduce::kSum;
  std::shared_ptr<const Shards> shards = nullptr;  // none: blocks of one size
  std::shared_ptr<const SumTree> tree = nullptr;   // with shards only
};

// output: [size * input], rank-major: block r is rank r's input.
// With shards, output is [count], input this rank's shard, which may lie where it belongs in output
// already.
struct AllGather {
  TensorView output;
  TensorView input;
  std::shared_ptr<const Shards> shards = nullptr;  // none: blocks of one size
};

struct Broadcast {  // in place
  TensorView buffer;
  Rank root{0};
};

// Both [size * block], rank-major: block r of `input` goes to rank r, block r of `output` is from
// it.
struct AllToAll {
  TensorView output;
  TensorView input;
};

struct Send {
  TensorView tensor;
  Rank to;
  std::uint32_t tag = 0;
};

struct Recv {
  TensorView tensor;
  Rank from;
  std::uint32_t tag = 0;
};

struct Barrier {};

using Op =
    std::variant<AllReduce, ReduceScatter, AllGather, Broadcast, AllToAll, Send, Recv, Barrier>;

// Schedules, see schedule.h.
enum class Algorithm : std::uint8_t {
  kAuto,
  kRing,
  kTree,
  kHalvingDoubling,
  kDirect,
  kBidirectionalRing,
  kDoubleTree,
  kHierarchical,
  kPairwise,
  kBruck,
};

struct OpOptions {
  Duration timeout = std::chrono::seconds(30);  // from submission; then kTimeout naming the peer
  std::string label;  // what it is for: "gradients/3", in errors and traces
  // Of a collective, as all below, alike on all ranks.
  Algorithm algorithm = Algorithm::kAuto;
  // Of kHierarchical: among the ranks of a host, and between hosts.
  Algorithm inner = Algorithm::kAuto;
  Algorithm outer = Algorithm::kAuto;
};

std::string_view name(const Op& op) noexcept;             // "all_reduce", …
std::string_view name_of_op(std::size_t index) noexcept;  // Op::index(); of no other: "?"
std::string_view name(Reduce reduce) noexcept;
std::string_view name(Algorithm algorithm) noexcept;  // "halving_doubling", as in job files
std::string describe(const Op& op);                   // "all_reduce sum F32 [1000]"
// Without what may differ between ranks, the rows of an ordered all-reduce: equal on all of them,
// or one has made a mistake.
std::string describe_for_all(const Op& op);

}  // namespace muster::comm
