#include "muster/parallel/tree_accumulator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "muster/parallel/testing/tree_sums.h"

namespace muster::parallel {
namespace {

using comm::LeafRange;

constexpr std::int64_t kCounts[] = {5, 1, 40, 16, 3, 100};

std::vector<float> slot_gradient(std::int32_t unit, std::int32_t slot) {
  return random_gradient(unit, static_cast<std::uint64_t>(slot), kCounts[slot]);
}

struct Fixture {
  explicit Fixture(std::vector<LeafRange> parts, DType dtype = DType::kF32)
      : layout(plan_buckets(kCounts, {.first_bytes = 100, .bytes = 400, .dtype = dtype})),
        parts_of(std::move(parts)) {
    for (const std::int64_t size : layout.sizes) {
      storage.emplace_back(static_cast<std::size_t>(size) * parts_of.size(), -1.0f);
      rows.emplace_back(storage.back());
    }
    ready_count = std::vector<std::atomic<int>>(layout.sizes.size());
    accumulator = std::make_unique<TreeAccumulator>(layout, parts_of, rows, [this](std::int32_t b) {
      ++ready_count[static_cast<std::size_t>(b)];
    });
  }

  void expect_sums() {
    for (std::size_t part = 0; part < parts_of.size(); ++part) {
      for (std::size_t slot = 0; slot < std::size(kCounts); ++slot) {
        const BucketSlot& place = layout.slots[slot];
        const auto b = static_cast<std::size_t>(place.bucket);
        const float* sum =
            rows[b].data() + part * static_cast<std::size_t>(layout.sizes[b]) + place.offset;
        const std::vector<float> expected =
            naive_sum(parts_of[part], layout.dtypes[b], [&](std::int32_t unit) {
              return slot_gradient(unit, static_cast<std::int32_t>(slot));
            });
        EXPECT_EQ(std::vector<float>(sum, sum + place.count), expected) << part << " " << slot;
      }
    }
    for (const auto& count : ready_count) EXPECT_EQ(count, 1);
  }

  BucketLayout layout;
  std::vector<LeafRange> parts_of;
  std::vector<std::vector<float>> storage;
  std::vector<std::span<float>> rows;
  std::vector<std::atomic<int>> ready_count;
  std::unique_ptr<TreeAccumulator> accumulator;
};

void add_unit(Fixture& fixture, std::int32_t unit) {
  for (std::int32_t slot = 0; slot < static_cast<std::int32_t>(std::size(kCounts)); ++slot) {
    fixture.accumulator->add(unit, slot, slot_gradient(unit, slot));
  }
}

// Every worker's range of every tree, at several numbers of lanes, for two steps: the same bits as
// the recursive definition.
TEST(TreeAccumulator, EqualsTheRecursiveSumForAnyRangeAndAnyLanes) {
  for (const std::int32_t leaves : {1, 2, 3, 5, 6, 7, 8, 13}) {
    for (std::int32_t size = 1; size <= leaves; ++size) {
      const comm::SumTree tree(leaves, size);
      for (std::int32_t rank = 0; rank < size; ++rank) {
        for (const int lanes : {1, 2, 3}) {
          Fixture fixture(tree.parts(Rank{rank}));
          const LeafRange range = comm::even_share(leaves, size, rank);
          for (int step = 0; step < 2; ++step) {
            for (auto& count : fixture.ready_count) count = 0;
            fixture.accumulator->begin();
            std::atomic<std::int32_t> next{range.begin};
            std::vector<std::jthread> threads;
            for (int lane = 0; lane < lanes; ++lane) {
              threads.emplace_back([&] {
                for (std::int32_t unit; (unit = next++) < range.end;) add_unit(fixture, unit);
              });
            }
            threads.clear();
            fixture.expect_sums();
          }
        }
      }
    }
  }
}

TEST(TreeAccumulator, ReverseOrderOfArrivalChangesNothing) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    Fixture fixture({LeafRange{0, 8}, LeafRange{8, 12}, LeafRange{12, 13}}, dtype);
    fixture.accumulator->begin();
    for (std::int32_t unit = 12; unit >= 0; --unit) add_unit(fixture, unit);
    fixture.expect_sums();
  }
}

// Every gradient and every sum of two, in all buckets but the first slot's.
TEST(TreeAccumulator, RoundsSumsOf16Bits) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    Fixture fixture({LeafRange{0, 4}, LeafRange{4, 7}}, dtype);
    EXPECT_EQ(fixture.layout.dtypes.front(), DType::kF32);
    EXPECT_EQ(fixture.layout.slots_in.front(), 1);
    EXPECT_EQ(fixture.layout.dtypes.back(), dtype);
    fixture.accumulator->begin();
    for (std::int32_t unit = 0; unit < 7; ++unit) add_unit(fixture, unit);
    fixture.expect_sums();
  }
}

TEST(TreeAccumulator, PassesOfAUnitAreSummedBeforeTheTree) {
  Fixture fixture({LeafRange{0, 2}});
  fixture.accumulator->begin();
  const std::vector<float> big(1, 1e8f), small(1, 3.0f);
  for (std::int32_t unit = 0; unit < 2; ++unit) {
    for (std::int32_t pass = 0; pass < 2; ++pass) {
      for (std::int32_t slot = 0; slot < 6; ++slot) {
        const std::vector<float> values(static_cast<std::size_t>(kCounts[slot]),
                                        unit == 0 && pass == 0 ? 1e8f : 3.0f);
        fixture.accumulator->add(unit, slot, values, pass, 2);
      }
    }
  }
  // (1e8 + 3) + (3 + 3), not ((1e8 + 3) + 3) + 3
  EXPECT_EQ(fixture.rows[0][0], (1e8f + 3.0f) + (3.0f + 3.0f));
  EXPECT_NE((1e8f + 3.0f) + (3.0f + 3.0f), ((1e8f + 3.0f) + 3.0f) + 3.0f);
}

TEST(BucketLayout, FirstBucketIsSmallAndNothingSharesACacheLine) {
  const BucketLayout layout = plan_buckets(kCounts, {.first_bytes = 100, .bytes = 400});
  EXPECT_EQ(layout.sizes.front(), 16);
  for (const BucketSlot& slot : layout.slots) EXPECT_EQ(slot.offset % 16, 0);
  EXPECT_EQ(std::accumulate(layout.slots_in.begin(), layout.slots_in.end(), 0), 6);
  EXPECT_EQ(plan_buckets({}, {.first_bytes = 1, .bytes = 1}).sizes.size(), 0u);
}

// A step that three workers began and two finish, after one of them and then another died: nobody
// computes a unit twice.
TEST(TreeAccumulator, GoesOnFromSumsOfAnAttemptBefore) {
  const comm::LeafOwners before = comm::even_owners(13, 3);
  for (std::int32_t dead = 0; dead < 3; ++dead) {
    std::vector<Rank> now;
    for (std::int32_t rank = 0; rank < 3; ++rank)
      now.push_back(rank == dead ? kNoRank : Rank{rank > dead ? rank - 1 : rank});
    const comm::LeafOwners after = comm::inherit_leaves(before, now);
    const comm::SumTree first(before, 3);
    const comm::SumTree second(after, 2);
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      if (rank == dead) continue;
      Fixture attempt(first.parts(Rank{rank}));
      attempt.accumulator->begin();
      Fixture again(second.parts(now[static_cast<std::size_t>(rank)]));
      again.accumulator->begin();
      for (std::int32_t unit = 0; unit < 13; ++unit)
        if (before[static_cast<std::size_t>(unit)] == Rank{rank}) add_unit(attempt, unit);
      for (std::size_t b = 0; b < attempt.rows.size(); ++b) {
        const auto size = static_cast<std::size_t>(attempt.layout.sizes[b]);
        for (std::size_t part = 0; part < attempt.parts_of.size(); ++part)
          again.accumulator->seed(attempt.parts_of[part], static_cast<std::int32_t>(b),
                                  attempt.rows[b].subspan(part * size, size));
      }
      for (std::size_t unit = 0; unit < 13; ++unit)
        if (after[unit] == now[static_cast<std::size_t>(rank)] && before[unit] != Rank{rank})
          add_unit(again, static_cast<std::int32_t>(unit));
      again.expect_sums();
    }
  }
}

}  // namespace
}  // namespace muster::parallel
