#include "muster/parallel/shard_plan.h"

#include <algorithm>
#include <numeric>

#include "muster/base/check.h"

namespace muster::parallel {
namespace {

struct Cell {
  std::int32_t slot;
  std::int64_t begin;  // in its tensor
  std::int64_t count;
  std::int64_t place;  // in its bucket
};

std::vector<std::vector<Cell>> cells_by_bucket(const BucketLayout& layout,
                                               std::span<const optim::Cells> cells) {
  std::vector<std::vector<Cell>> all(layout.sizes.size());
  for (std::size_t slot = 1; slot < layout.slots.size(); ++slot) {
    const BucketSlot& place = layout.slots[slot];
    const optim::Cells& of = cells[slot - 1];
    for (std::int64_t cell = 0; cell < of.count(); ++cell)
      all[static_cast<std::size_t>(place.bucket)].push_back(
          {static_cast<std::int32_t>(slot), of.begin(cell), of.begin(cell + 1) - of.begin(cell),
           place.offset + of.begin(cell)});
  }
  return all;
}

// Where each rank's share of a bucket's elements ends, in elements: those who have got less so far
// get more.
std::vector<double> share_ends(std::int64_t elements, const std::vector<std::int64_t>& so_far) {
  const std::int64_t before = std::accumulate(so_far.begin(), so_far.end(), std::int64_t{0});
  const double even = static_cast<double>(before + elements) / static_cast<double>(so_far.size());
  std::vector<double> ends;
  ends.reserve(so_far.size());
  double sum = 0;
  for (const std::int64_t has : so_far)
    ends.push_back(sum += std::max(0.0, even - static_cast<double>(has)));
  for (double& end : ends) end *= static_cast<double>(elements) / sum;
  ends.back() = static_cast<double>(elements);
  return ends;
}

std::int64_t elements_of(const std::vector<Cell>& cells) {
  return std::accumulate(cells.begin(), cells.end(), std::int64_t{0},
                         [](std::int64_t sum, const Cell& cell) { return sum + cell.count; });
}

// A cell goes to the rank in whose share its middle lies.
double middle(std::int64_t before, const Cell& cell) {
  return static_cast<double>(before) + static_cast<double>(cell.count) / 2;
}

void add(std::vector<ShardPiece>& pieces, const Cell& cell) {
  const bool goes_on = !pieces.empty() && pieces.back().slot == cell.slot &&
                       pieces.back().begin + pieces.back().count == cell.begin;
  if (goes_on)
    pieces.back().count += cell.count;
  else
    pieces.push_back({cell.slot, cell.begin, cell.count});
}

std::shared_ptr<const comm::Shards> evenly(std::int64_t elements, std::int32_t parts) {
  comm::Shards shards;
  for (std::int32_t part = 0; part <= parts; ++part)
    shards.begin.push_back(elements * part / parts);
  return std::make_shared<const comm::Shards>(std::move(shards));
}

}  // namespace

ShardPlan plan_shards(const BucketLayout& layout, std::span<const optim::Cells> cells,
                      std::int32_t ranks) {
  MUSTER_CHECK(layout.slots.size() == cells.size() + 1 && layout.slots_in.front() == 1,
               "the first slot is alone, the others have cells");
  const auto size = static_cast<std::size_t>(ranks);
  ShardPlan plan{.shards = {nullptr}, .pieces = std::vector<std::vector<ShardPiece>>(size)};
  std::vector<std::int64_t> so_far(size);
  const auto by_bucket = cells_by_bucket(layout, cells);
  for (std::size_t bucket = 1; bucket < by_bucket.size(); ++bucket) {
    const std::vector<Cell>& all = by_bucket[bucket];
    const std::vector<double> ends = share_ends(elements_of(all), so_far);
    comm::Shards shards{{0}};
    auto cell = all.begin();
    std::int64_t dealt = 0;
    for (std::size_t rank = 0; rank < size; ++rank) {
      for (; cell != all.end() && middle(dealt, *cell) <= ends[rank]; ++cell) {
        add(plan.pieces[rank], *cell);
        so_far[rank] += cell->count;
        dealt += cell->count;
      }
      shards.begin.push_back(cell == all.end() ? layout.sizes[bucket] : cell->place);
    }
    plan.shards.push_back(std::make_shared<const comm::Shards>(std::move(shards)));
  }
  return plan;
}

BucketShards within(const BucketShards& shards, Rank shard, std::int32_t copies) {
  BucketShards parts;
  for (const auto& bucket : shards)
    parts.push_back(bucket ? evenly(bucket->count_of(shard), copies) : nullptr);
  return parts;
}

BucketShards among_copies(const BucketShards& shards, std::int32_t copies) {
  if (copies == 1) return shards;
  BucketShards cut;
  for (const auto& bucket : shards) {
    if (!bucket) {
      cut.push_back(nullptr);
      continue;
    }
    comm::Shards all{{0}};
    for (std::int32_t shard = 0; shard < bucket->size(); ++shard) {
      const auto parts = evenly(bucket->count_of(Rank{shard}), copies);
      for (auto end = parts->begin.begin() + 1; end != parts->begin.end(); ++end)
        all.begin.push_back(bucket->begin_of(Rank{shard}) + *end);
    }
    cut.push_back(std::make_shared<const comm::Shards>(std::move(all)));
  }
  return cut;
}

}  // namespace muster::parallel
