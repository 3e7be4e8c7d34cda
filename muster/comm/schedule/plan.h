#pragma once
// Writing a schedule down step by step. Empty slices are dropped on both sides alike.

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
    if (from.count > 0) add({ScheduleStep::Kind::kSend, Rank{to}, from, {}});
  }
  void recv(std::int32_t from, Slice to) {
    if (to.count > 0) add({ScheduleStep::Kind::kRecv, Rank{from}, {}, to});
  }
  void reduce(Slice to, Slice from) {
    if (to.count > 0) add({ScheduleStep::Kind::kReduce, kNoRank, from, to});
  }
  void copy(Slice to, Slice from) {
    if (to.count > 0) add({ScheduleStep::Kind::kCopy, kNoRank, from, to});
  }
  void signal(std::int32_t to) { add({ScheduleStep::Kind::kSend, Rank{to}, {}, {}}); }
  void await_signal(std::int32_t from) { add({ScheduleStep::Kind::kRecv, Rank{from}, {}, {}}); }

  // Fresh scratch memory.
  Slice scratch(std::int64_t count) {
    const Slice slice{Space::kScratch, schedule_.scratch, count};
    schedule_.scratch += count;
    return slice;
  }

  Schedule take() { return std::move(schedule_); }

 private:
  void add(ScheduleStep step) { schedule_.steps.push_back(step); }
  Schedule schedule_;
};

// Block i of a collective; index i belongs to rank i.
using Blocks = std::vector<Slice>;

inline Blocks even_blocks(Space space, std::int64_t count, std::int32_t size) {
  Blocks blocks;
  for (std::int32_t i = 0; i < size; ++i) blocks.push_back(even_slice(space, count, size, i));
  return blocks;
}

inline Blocks equal_blocks(Slice first, std::int32_t size) {
  Blocks blocks;
  for (std::int32_t i = 0; i < size; ++i)
    blocks.push_back({first.space, first.begin + i * first.count, first.count});
  return blocks;
}

inline Blocks shard_blocks(Slice row, const Shards& shards) {
  Blocks blocks;
  for (std::int32_t r = 0; r < shards.size(); ++r)
    blocks.push_back({row.space, row.begin + shards.begin_of(Rank{r}), shards.count_of(Rank{r})});
  return blocks;
}

// The building blocks of the collectives, in place on contiguous `blocks`: afterwards block
// `me.rank` is reduced over all ranks, or all blocks are everywhere.
void plan_reduce_scatter(Plan& plan, Algorithm algorithm, Position me, const Blocks& blocks);
void plan_all_gather(Plan& plan, Algorithm algorithm, Position me, const Blocks& blocks);

}  // namespace muster::comm
