// Reduce-scatter and all-gather of shards of any sizes, in place and apart, at every size, count,
// dtype and schedule.

#include <fmt/format.h>

#include <algorithm>

#include "tests/ranks/ranks.h"

namespace muster::comm {
namespace {

// Nobody's shard is as long as a neighbour's; rank 0's is empty where there are three ranks or
// more.
std::shared_ptr<const Shards> shards_of(std::int64_t count, std::int32_t size) {
  const auto weight = [&](std::int32_t rank) { return size < 3 ? rank + 1 : rank * rank; };
  std::int64_t whole = 0;
  for (std::int32_t rank = 0; rank < size; ++rank) whole += weight(rank);
  Shards shards{{0}};
  std::int64_t before = 0;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    before += weight(rank);
    shards.begin.push_back(count * before / whole);
  }
  return std::make_shared<const Shards>(std::move(shards));
}

struct Case {
  DType dtype;
  Algorithm algorithm;
  std::int64_t count;
  bool in_place;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t count : kCounts)
    for (const DType dtype : kAllDTypes)
      for (const Algorithm algorithm : kBlockAlgorithms)
        for (const bool in_place : {false, true})
          if (count <= kSmallCount || dtype == DType::kF32 || algorithm == Algorithm::kAuto)
            all.push_back({dtype, algorithm, count, in_place});
  return all;
}

OpOptions options_of(const Case& c) {
  return {
      .label = fmt::format("dtype {} algorithm {} count {} in place {}", static_cast<int>(c.dtype),
                           static_cast<int>(c.algorithm), c.count, c.in_place),
      .algorithm = c.algorithm};
}

// This rank's shard of a row.
TensorView shard_in(const TensorView& row, const Shards& shards, Rank rank) {
  const std::size_t width = size_of(row.dtype);
  return {row.dtype,
          {shards.count_of(rank)},
          row.bytes.subspan(static_cast<std::size_t>(shards.begin_of(rank)) * width,
                            static_cast<std::size_t>(shards.count_of(rank)) * width)};
}

TEST_P(Conformance, ReduceScatterToShards) {
  for (const std::int32_t size : kSizes) {
    on_every_rank(create(size), [&](Communicator& world) {
      const Rank me = world.group().rank;
      for (const Case& c : cases()) {
        const auto shards = shards_of(c.count, size);
        Values input = Values::filled(c.dtype, {1, c.count}, [&](std::int64_t i) {
          return number_at(to_int(me), i, 1) % 16;
        });
        Values apart(c.dtype, {shards->count_of(me)});
        const TensorView output = c.in_place ? shard_in(input.view(), *shards, me) : apart.view();
        const OpOptions options = options_of(c);
        const Status done =
            world.submit(ReduceScatter{output, input.view(), Reduce::kSum, shards}, options).wait();
        ASSERT_TRUE(done) << options.label << ": " << done.error().message;
        Values expected = Values::filled(c.dtype, {shards->count_of(me)}, [&](std::int64_t i) {
          int sum = 0;
          for (std::int32_t rank = 0; rank < size; ++rank)
            sum += number_at(rank, shards->begin_of(me) + i, 1) % 16;
          return sum;
        });
        ASSERT_TRUE(std::ranges::equal(expected.view().bytes, output.bytes))
            << size << " ranks, " << options.label;
      }
    });
  }
}

TEST_P(Conformance, AllGatherOfShards) {
  for (const std::int32_t size : kSizes) {
    on_every_rank(create(size), [&](Communicator& world) {
      const Rank me = world.group().rank;
      for (const Case& c : cases()) {
        const auto shards = shards_of(c.count, size);
        const Values expected =
            Values::filled(c.dtype, {c.count}, [](std::int64_t i) { return number_at(3, i, 2); });
        Values mine = Values::filled(c.dtype, {shards->count_of(me)}, [&](std::int64_t i) {
          return number_at(3, shards->begin_of(me) + i, 2);
        });
        Values output(c.dtype, {c.count});
        TensorView input = mine.view();
        if (c.in_place) {
          const TensorView place = shard_in(output.view(), *shards, me);
          std::copy(input.bytes.begin(), input.bytes.end(), place.bytes.begin());
          input = place;
        }
        const OpOptions options = options_of(c);
        const Status done = world.submit(AllGather{output.view(), input, shards}, options).wait();
        ASSERT_TRUE(done) << options.label << ": " << done.error().message;
        ASSERT_EQ(output.differences(expected), 0) << size << " ranks, " << options.label;
      }
    });
  }
}

}  // namespace
}  // namespace muster::comm
