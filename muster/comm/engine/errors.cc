#include "muster/comm/engine/errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "muster/base/units.h"

namespace muster::comm {
namespace {

bool whole(const TensorView& view) noexcept {
  return static_cast<std::int64_t>(view.bytes.size()) ==
         view.count() * static_cast<std::int64_t>(size_of(view.dtype));
}

// Of a sum along `tree` over the rows of `buffer`; empty when nothing is wrong.
std::string fault_of_tree(const SumTree& tree, const TensorView& buffer, Reduce reduce,
                          const Group& group) {
  if (reduce != Reduce::kSum) return "in a tree there are only sums";
  if (tree.size() != group.size) return "the tree is for another number of ranks";
  const std::int32_t rows = tree.rows(group.rank);
  if (buffer.shape.empty() || buffer.shape[0] != rows)
    return fmt::format("the buffer needs {} rows, one for each of this rank's parts", rows);
  return {};
}

// `row`: its elements; `shard`: this rank's.
std::string fault_of_shards(const Shards& shards, std::int64_t row, const TensorView& shard,
                            const Group& group) {
  if (shards.size() != group.size) return "the shards are for another number of ranks";
  if (shards.begin.front() != 0 || !std::ranges::is_sorted(shards.begin))
    return "the shards do not ascend from 0";
  if (shards.count() != row) return fmt::format("the shards end at {}", shards.count());
  if (shard.count() != shards.count_of(group.rank))
    return fmt::format("this rank's shard has {} elements", shards.count_of(group.rank));
  return {};
}

// What is wrong with the operation; empty when nothing is.
std::string fault_of(const AllReduce& op, const Group& group) {
  if (!whole(op.buffer)) return "the buffer's bytes do not match its shape";
  return op.tree ? fault_of_tree(*op.tree, op.buffer, op.reduce, group) : "";
}

std::string fault_of_two(const TensorView& a, const TensorView& b) {
  if (!whole(a) || !whole(b)) return "a tensor's bytes do not match its shape";
  return a.dtype == b.dtype ? "" : "input and output differ in dtype";
}

std::string fault_of_pair(const TensorView& large, const TensorView& small, std::int32_t times) {
  if (auto fault = fault_of_two(large, small); !fault.empty()) return fault;
  if (large.count() != times * small.count())
    return fmt::format("one side must hold {} times the elements of the other", times);
  return {};
}

std::string fault_of(const ReduceScatter& op, const Group& group) {
  if (!op.shards)
    return op.tree ? "a tree needs shards" : fault_of_pair(op.input, op.output, group.size);
  if (auto fault = fault_of_two(op.input, op.output); !fault.empty()) return fault;
  if (op.tree) {
    auto fault = fault_of_tree(*op.tree, op.input, op.reduce, group);
    if (!fault.empty()) return fault;
  }
  const std::int64_t rows = op.tree ? op.tree->rows(group.rank) : 1;
  return fault_of_shards(*op.shards, op.input.count() / rows, op.output, group);
}

std::string fault_of(const AllGather& op, const Group& group) {
  if (!op.shards) return fault_of_pair(op.output, op.input, group.size);
  if (auto fault = fault_of_two(op.input, op.output); !fault.empty()) return fault;
  return fault_of_shards(*op.shards, op.output.count(), op.input, group);
}

std::string fault_of_peer(const TensorView& tensor, Rank peer, const Group& group) {
  if (!whole(tensor)) return "the tensor's bytes do not match its shape";
  if (to_int(peer) < 0 || to_int(peer) >= group.size)
    return fmt::format("rank {} is not in a group of {}", to_int(peer), group.size);
  return {};
}

std::string fault_of(const Broadcast& op, const Group& group) {
  return fault_of_peer(op.buffer, op.root, group);
}

std::string fault_of(const AllToAll& op, const Group& group) {
  if (op.input.count() % group.size != 0)
    return fmt::format("the elements do not divide by {} ranks", group.size);
  return fault_of_pair(op.input, op.output, 1);
}

std::string fault_of(const Send& op, const Group& group) {
  return fault_of_peer(op.tensor, op.to, group);
}

std::string fault_of(const Recv& op, const Group& group) {
  return fault_of_peer(op.tensor, op.from, group);
}

std::string fault_of(const Barrier&, const Group&) { return {}; }

}  // namespace

std::string subject(const Op& op, const OpOptions& options) {
  return options.label.empty() ? describe(op) : fmt::format("{}, {}", options.label, describe(op));
}

Error timeout_error(const Op& op, const OpOptions& options, const Group& group,
                    const std::vector<Rank>& missing) {
  std::vector<std::int32_t> numbers;
  numbers.reserve(missing.size());
  for (const Rank rank : missing)
    if (rank != kNoRank) numbers.push_back(to_int(rank));
  const std::string who = numbers.empty()       ? std::string("some rank")
                          : numbers.size() == 1 ? fmt::format("rank {}", numbers[0])
                                                : fmt::format("ranks {}", fmt::join(numbers, ", "));
  return fail(
      ErrorCode::kTimeout,
      fmt::format("[comm/{}] {} did not answer within {} in generation {} ({}); see the log "
                  "of that rank, or raise communication.timeout if steps take longer",
                  name(op), who, format_duration(options.timeout), to_int(group.generation),
                  subject(op, options)),
      missing.empty() ? kNoRank : missing[0]);
}

Error told_by(Rank from, const Error& why) {
  return fail(why.code, fmt::format("rank {} gave up: {}", to_int(from), why.message),
              why.peer == kNoRank ? from : why.peer);
}

Status check_op(const Op& op, const Group& group) {
  const std::string fault = std::visit([&](const auto& o) { return fault_of(o, group); }, op);
  if (fault.empty()) return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("[comm/{}] {} ({}) on rank {} of {}", name(op), fault, describe(op),
                          to_int(group.rank), group.size),
              group.rank);
}

}  // namespace muster::comm
