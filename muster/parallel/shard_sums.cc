#include "muster/parallel/shard_sums.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "muster/base/check.h"
#include "muster/base/round_up.h"
#include "muster/parallel/float_sums.h"

namespace muster::parallel {
namespace {

constexpr std::size_t kAlignment = 16;  // floats: one cache line

constexpr std::size_t padded(std::size_t count) { return round_up(count, kAlignment); }

}  // namespace

ShardSums::ShardSums(std::vector<comm::LeafRange> parts, std::vector<std::int64_t> sizes,
                     std::vector<DType> dtypes)
    : dtypes_(std::move(dtypes)), sizes_(sizes.begin(), sizes.end()), held_(sizes_.size()) {
  const std::int32_t units = parts.empty() ? 0 : parts.back().end;
  node_of_unit_.resize(static_cast<std::size_t>(units), -1);
  for (std::size_t row = 0; row < parts.size(); ++row)
    build(parts[row], -1, false, static_cast<std::int32_t>(row));
  const std::size_t rows = std::max<std::size_t>(1, parts.size());
  const std::size_t all =
      std::accumulate(sizes_.begin(), sizes_.end(), std::size_t{0},
                      [&](std::size_t sum, std::size_t size) { return sum + padded(rows * size); });
  memory_.resize(all);
  std::span<float> rest(memory_);
  for (const std::size_t size : sizes_) {
    rows_.push_back(rest.first(rows * size));
    rest = rest.subspan(padded(rows * size));
  }
  bytes_ = all * sizeof(float);
}

std::int32_t ShardSums::build(comm::LeafRange range, std::int32_t parent, bool right,
                              std::int32_t row) {
  const auto index = static_cast<std::int32_t>(nodes_.size());
  nodes_.push_back({.range = range, .parent = parent, .right = right, .row = row});
  if (range.size() == 1) {
    node_of_unit_[static_cast<std::size_t>(range.begin)] = index;
    return index;
  }
  const std::int32_t middle = comm::split_point(range);
  const std::int32_t one = build({range.begin, middle}, index, false, row);
  const std::int32_t other = build({middle, range.end}, index, true, -1);
  nodes_[static_cast<std::size_t>(one)].sibling = other;
  nodes_[static_cast<std::size_t>(other)].sibling = one;
  return index;
}

void ShardSums::begin() {
  for (Nodes& nodes : held_) {
    for (auto& [index, held] : nodes) give_back(std::move(held.block));
    nodes.clear();
  }
}

void ShardSums::add(std::int32_t unit, std::size_t bucket, std::span<const float> values,
                    std::int32_t pass, std::int32_t passes) {
  MUSTER_DCHECK(values.size() == sizes_[bucket], "size of a shard");
  const std::int32_t index = node_of_unit_[static_cast<std::size_t>(unit)];
  const Node& node = nodes_[static_cast<std::size_t>(index)];
  Nodes& nodes = held_[bucket];
  if (node.right && passes == 1 && dtypes_[bucket] == DType::kF32) {
    const auto left = nodes.find(node.sibling);
    if (left != nodes.end() && left->second.complete) {
      add_into(left->second.floats, values.data(), values.size());
      nodes[node.parent] = std::move(left->second);
      nodes.erase(left);
      return climb(node.parent, bucket);
    }
  }
  if (pass == 0) nodes[index] = room(index, bucket);
  Held& held = nodes[index];
  if (pass == 0)
    std::ranges::copy(values, held.floats);
  else
    add_into(held.floats, values.data(), values.size());
  if (pass + 1 < passes) return;
  round_as(dtypes_[bucket], held.floats, values.size());
  held.complete = true;
  climb(index, bucket);
}

// As far up the tree as both children of a node are there.
void ShardSums::climb(std::int32_t index, std::size_t bucket) {
  Nodes& nodes = held_[bucket];
  for (;;) {
    const Node& node = nodes_[static_cast<std::size_t>(index)];
    const auto sibling = nodes.find(node.sibling);
    if (node.parent < 0 || sibling == nodes.end() || !sibling->second.complete) return;
    const auto own = nodes.find(index);
    const auto left = node.right ? sibling : own, right = node.right ? own : sibling;
    add_into(left->second.floats, right->second.floats, sizes_[bucket]);
    round_as(dtypes_[bucket], left->second.floats, sizes_[bucket]);
    give_back(std::move(right->second.block));
    Held sum = std::move(left->second);
    nodes.erase(left);
    nodes.erase(right);
    index = node.parent;
    nodes[index] = std::move(sum);
  }
}

// A part's first unit's is where its sum ends up, since what is left takes up what is right.
ShardSums::Held ShardSums::room(std::int32_t node, std::size_t bucket) {
  const std::int32_t row = nodes_[static_cast<std::size_t>(node)].row;
  if (row >= 0)
    return {.floats = rows_[bucket].data() + static_cast<std::size_t>(row) * sizes_[bucket]};
  Held held{.block = take(padded(sizes_[bucket]))};
  held.floats = held.block.floats.get();
  return held;
}

// The smallest that will do, unless it is much too large.
ShardSums::Block ShardSums::take(std::size_t size) {
  auto best = free_.end();
  for (auto block = free_.begin(); block != free_.end(); ++block)
    if (block->size >= size && block->size <= 2 * size &&
        (best == free_.end() || block->size < best->size))
      best = block;
  if (best == free_.end()) {
    bytes_ += size * sizeof(float);
    return {std::make_unique_for_overwrite<float[]>(size), size};
  }
  Block block = std::move(*best);
  free_.erase(best);
  return block;
}

void ShardSums::give_back(Block block) {
  if (block.floats) free_.push_back(std::move(block));
}

}  // namespace muster::parallel
