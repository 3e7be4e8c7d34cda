#pragma once
// Writing a schedule down step by step. Empty slices are dropped on both sides alike.

#include <span>
#include <utility>
#include <vector>

#include "muster/comm/schedule.h"

namespace muster::comm {

// The rank, counted round a ring of so many.
inline std::int32_t wrap(std::int32_t rank, std::int32_t size) noexcept {
  return ((rank % size) + size) % size;
}

class Plan {
 public:
  void send(std::int32_t to, Slice from) {
    if (from.count > 0) add({ScheduleStep::Kind::kSend, peer(to), from, {}});
  }
  void recv(std::int32_t from, Slice to) {
    if (to.count > 0) add({ScheduleStep::Kind::kRecv, peer(from), {}, to});
  }
  void reduce(Slice to, Slice from) {
    if (to.count > 0) add({ScheduleStep::Kind::kReduce, kNoRank, from, to});
  }
  void copy(Slice to, Slice from) {
    if (to.count > 0) add({ScheduleStep::Kind::kCopy, kNoRank, from, to});
  }
  void signal(std::int32_t to) { add({ScheduleStep::Kind::kSend, peer(to), {}, {}}); }
  void await_signal(std::int32_t from) { add({ScheduleStep::Kind::kRecv, peer(from), {}, {}}); }

  // From here on peers are counted among `members`, which outlive that; empty: the whole group.
  void among(std::span<const std::int32_t> members) { members_ = members; }

  // Fresh scratch memory.
  Slice scratch(std::int64_t count) {
    const Slice slice{Space::kScratch, schedule_.scratch, count};
    schedule_.scratch += count;
    return slice;
  }

  Schedule take() { return std::move(schedule_); }

 private:
  void add(ScheduleStep step) { schedule_.steps.push_back(step); }
  Rank peer(std::int32_t number) const {
    return Rank{members_.empty() ? number : members_[static_cast<std::size_t>(number)]};
  }
  Schedule schedule_;
  std::span<const std::int32_t> members_;
};

// Elements [0, count) of a slice cut into `parts` contiguous ranges that differ by at most one.
inline Slice cut(const Slice& whole, std::int32_t parts, std::int32_t index) noexcept {
  Slice part = even_slice(whole.space, whole.count, parts, index);
  part.begin += whole.begin;
  return part;
}

// Block i of a collective; index i belongs to rank i. They lie behind each other without gaps.
using Blocks = std::vector<Slice>;

inline Blocks even_blocks(const Slice& whole, std::int32_t size) {
  Blocks blocks;
  blocks.reserve(static_cast<std::size_t>(size));
  for (std::int32_t i = 0; i < size; ++i) blocks.push_back(cut(whole, size, i));
  return blocks;
}

inline Blocks equal_blocks(Slice first, std::int32_t size) {
  Blocks blocks;
  blocks.reserve(static_cast<std::size_t>(size));
  for (std::int32_t i = 0; i < size; ++i)
    blocks.push_back({first.space, first.begin + i * first.count, first.count});
  return blocks;
}

inline Blocks shard_blocks(Slice row, const Shards& shards) {
  Blocks blocks;
  blocks.reserve(static_cast<std::size_t>(shards.size()));
  for (std::int32_t r = 0; r < shards.size(); ++r)
    blocks.push_back({row.space, row.begin + shards.begin_of(Rank{r}), shards.count_of(Rank{r})});
  return blocks;
}

// The building blocks of the collectives, in place on contiguous `blocks`: afterwards block
// `me.rank` is reduced over all ranks, or all blocks are everywhere. Neither kTree nor kDoubleTree.
void plan_reduce_scatter(Plan& plan, Algorithm algorithm, Position me, const Blocks& blocks);
void plan_all_gather(Plan& plan, Algorithm algorithm, Position me, const Blocks& blocks);
void plan_bidirectional_reduce_scatter(Plan& plan, Position me, const Blocks& blocks);
void plan_bidirectional_all_gather(Plan& plan, Position me, const Blocks& blocks);

// The same in place on the whole of `all`.
void plan_all_reduce(Plan& plan, Algorithm algorithm, Position me, Slice all);
void plan_broadcast(Plan& plan, Algorithm algorithm, Position me, std::int32_t root, Slice all);
void plan_tree_reduce(Plan& plan, Position me, Slice all);  // to rank 0
void plan_double_tree_all_reduce(Plan& plan, Position me, Slice all);

}  // namespace muster::comm
