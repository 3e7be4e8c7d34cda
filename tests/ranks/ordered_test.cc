// Ordered all-reduce and reduce-scatter: the bits are those of the tree, whatever the number of
// ranks.

#include <algorithm>
#include <cstring>

#include "muster/base/random.h"
#include "muster/comm/reduce.h"
#include "tests/ranks/ranks.h"

namespace muster::comm {
namespace {

using Bytes = std::vector<std::byte>;

// Numbers of very different size, so that another order of summation gives other bits; of integers,
// whose sums wrap and have no order, any bits.
Bytes leaf(DType dtype, std::int64_t count, std::int32_t index) {
  const RandomStream random(7, "leaf", static_cast<std::uint64_t>(index));
  Bytes bytes(static_cast<std::size_t>(count) * size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    const float value = random.normal(at) * (random.bits(at) % 2 == 0 ? 1.0F : 1000.0F);
    const double wide = value;
    const auto place = bytes.data() + static_cast<std::size_t>(i) * size_of(dtype);
    if (dtype == DType::kF32) std::memcpy(place, &value, 4);
    if (dtype == DType::kF64) std::memcpy(place, &wide, 8);
    if (dtype == DType::kBF16) std::memcpy(place, reinterpret_cast<const char*>(&value) + 2, 2);
    if (dtype == DType::kF16) {  // normal, random sign and mantissa
      const auto half = static_cast<std::uint16_t>((random.bits(at) & 0x8fffU) | 0x3000U);
      std::memcpy(place, &half, 2);
    }
    if (dtype == DType::kI32 || dtype == DType::kI64 || dtype == DType::kU8) {
      const std::uint64_t any = random.bits(at);
      std::memcpy(place, &any, size_of(dtype));
    }
  }
  return bytes;
}

// The leaves of one sum; many ranks read them.
struct Leaves {
  Leaves(DType d, std::int64_t c, std::int32_t number) : dtype(d), count(c) {
    for (std::int32_t i = 0; i < number; ++i) values.push_back(leaf(dtype, count, i));
  }
  std::int32_t number() const { return static_cast<std::int32_t>(values.size()); }

  Bytes sum(LeafRange range) const {
    if (range.size() == 1) return values[static_cast<std::size_t>(range.begin)];
    const std::int32_t middle = split_point(range);
    Bytes left = sum({range.begin, middle});
    const Bytes right = sum({middle, range.end});
    reduce(dtype, Reduce::kSum, {left.data()}, left.data(), right.data(), count);
    return left;
  }

  const DType dtype;
  const std::int64_t count;
  std::vector<Bytes> values;
};

// Dealt evenly, or (`uneven`) two thirds to the last rank but one, so that the rest of the others'
// leaves are no neighbours.
LeafOwners deal(std::int32_t leaves, std::int32_t size, bool uneven) {
  LeafOwners owners = even_owners(leaves, size);
  for (std::size_t i = 0; uneven && size > 1 && i < owners.size(); ++i)
    if (i % 3 != 1) owners[i] = Rank{size - 2};
  return owners;
}

// What one rank brings to an ordered sum.
struct Rows {
  std::shared_ptr<const SumTree> tree;
  Bytes own;
  Buffer buffer;                // allocated by the communicator, or not
  std::span<std::byte> memory;  // [rows, count]
  TensorView view;
};

void fill(Rows& rows, Communicator& world, const Leaves& leaves, bool allocated) {
  const auto [dtype, count] = std::pair(leaves.dtype, leaves.count);
  rows.tree = std::make_shared<SumTree>(
      deal(leaves.number(), world.group().size, leaves.number() % 2 == 1), world.group().size);
  const auto& parts = rows.tree->parts(world.group().rank);
  const std::size_t row = static_cast<std::size_t>(count) * size_of(dtype);
  const std::int32_t number = rows.tree->rows(world.group().rank);
  rows.own.resize(static_cast<std::size_t>(number) * row);
  rows.memory = rows.own;
  if (allocated) {
    // Every rank allocates the same sizes: the most rows any rank may need.
    auto result = world.allocate(leaves.values.size() * row);
    ASSERT_TRUE(result) << result.error().message;
    rows.buffer = *result;
    rows.memory = rows.buffer->subspan(0, rows.own.size());
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Bytes sum = leaves.sum(parts[i]);
    if (row > 0) std::memcpy(rows.memory.data() + i * row, sum.data(), row);
  }
  rows.view = {dtype, {number, count}, rows.memory};
}

void check(Communicator& world, const Leaves& leaves, const Bytes& expected, bool allocated) {
  Rows rows;
  fill(rows, world, leaves, allocated);
  const Status status = world.submit(AllReduce{rows.view, Reduce::kSum, rows.tree}, {}).wait();
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(Bytes(rows.memory.begin(),
                  rows.memory.begin() + static_cast<std::ptrdiff_t>(expected.size())),
            expected)
      << world.group().size << " ranks, " << leaves.number() << " leaves, count " << leaves.count;
}

// In place, to shards of which the last but one is the longest.
void check_shards(Communicator& world, const Leaves& leaves, const Bytes& expected,
                  bool allocated) {
  Rows rows;
  fill(rows, world, leaves, allocated);
  const auto [rank, size] = std::pair(world.group().rank, world.group().size);
  Shards shards{{0}};
  for (std::int32_t r = 1; r < size; ++r)
    shards.begin.push_back(r == size - 1 ? leaves.count - leaves.count / 7
                                         : leaves.count * r / (3 * size));
  shards.begin.push_back(leaves.count);
  const std::size_t width = size_of(leaves.dtype);
  const auto begin = static_cast<std::size_t>(shards.begin_of(rank)) * width;
  const auto bytes = static_cast<std::size_t>(shards.count_of(rank)) * width;
  const TensorView mine{leaves.dtype, {shards.count_of(rank)}, rows.memory.subspan(begin, bytes)};
  const ReduceScatter op{mine, rows.view, Reduce::kSum,
                         std::make_shared<const Shards>(std::move(shards)), rows.tree};
  const Status status = world.submit(op, {}).wait();
  ASSERT_TRUE(status) << status.error().message;
  const std::span<const std::byte> part = std::span(expected).subspan(begin, bytes);
  EXPECT_TRUE(std::ranges::equal(mine.bytes, part))
      << size << " ranks, " << leaves.number() << " leaves, count " << leaves.count;
}

// The large count at every size as F32, which gradients are; as the others at two sizes.
bool is_met(DType dtype, std::int64_t count, std::ptrdiff_t size) {
  return asks_for_all() || count <= 1000 || dtype == DType::kF32 || size == 3 || size == 8;
}

TEST_P(Conformance, OrderedSumsHaveTheSameBitsAtEverySize) {
  std::vector<Ranks> worlds;  // all at once: drawing the leaves takes longer than summing them
  for (const std::int32_t size : kSizes) worlds.push_back(create(size));
  for (const DType dtype : kAllDTypes)
    for (const std::int32_t number : {1, 5, 8, 13})  // of 1 the others only get the total
      for (const std::int64_t count : kCounts) {
        if (kSanitized && count > 1000 && dtype != DType::kF32) continue;
        const Leaves leaves(dtype, count, number);
        const Bytes expected = leaves.sum({0, number});
        for (const Ranks& ranks : worlds) {
          if (!is_met(dtype, count, std::ssize(ranks))) continue;
          on_every_rank(ranks, [&](Communicator& world) {
            check(world, leaves, expected, false);
            check(world, leaves, expected, true);
            check_shards(world, leaves, expected, false);
            check_shards(world, leaves, expected, true);
          });
        }
      }
}

}  // namespace
}  // namespace muster::comm
