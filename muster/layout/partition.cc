#include "muster/layout/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>

#include "muster/base/check.h"
#include "muster/base/ids.h"

namespace muster::layout {
namespace {

using Borders = std::vector<std::size_t>;  // chunk c has blocks [borders[c], borders[c + 1])

Error bad_partition(const std::string& why) {
  return fail(ErrorCode::kInvalid, "[layout/partition] " + why);
}

// sums[i]: of the blocks before i.
std::vector<double> running_sums(std::span<const Duration> costs) {
  std::vector<double> sums = {0};
  for (const Duration cost : costs) {
    MUSTER_CHECK(cost >= Duration::zero(), "no block takes less than no time");
    sums.push_back(sums.back() + static_cast<double>(cost.count()));
  }
  return sums;
}

// least[c][i]: the least `score` of a cut of the first i blocks into c chunks, and where its last
// chunk begins. `join` adds a chunk's score to that of those before.
template <class Score, class Join>
Borders best_cut(std::size_t blocks, std::size_t chunks, Score worst, Join join) {
  struct Cut {
    Score score;
    std::size_t last = 0;
  };
  std::vector least(chunks + 1, std::vector(blocks + 1, Cut{worst}));
  least[0][0].score = Score{};
  for (std::size_t chunk = 1; chunk <= chunks; ++chunk) {
    for (std::size_t end = chunk; end <= blocks; ++end) {
      for (std::size_t begin = chunk - 1; begin < end; ++begin) {
        if (least[chunk - 1][begin].score == worst) continue;
        const Score score = join(least[chunk - 1][begin].score, begin, end);
        if (score < least[chunk][end].score) least[chunk][end] = {score, begin};
      }
    }
  }
  Borders borders = {blocks};
  for (std::size_t chunk = chunks; chunk > 0; --chunk)
    borders.push_back(least[chunk][borders.back()].last);
  std::ranges::reverse(borders);
  return borders;
}

constexpr double kNever = std::numeric_limits<double>::infinity();

double slowest_chunk(const Borders& borders, const std::vector<double>& sums) {
  double slowest = 0;
  for (std::size_t c = 0; c + 1 < borders.size(); ++c)
    slowest = std::max(slowest, sums[borders[c + 1]] - sums[borders[c]]);
  return slowest;
}

// The slowest chunk as fast as can be; among those cuts the most even one.
Borders even_cut(const std::vector<double>& sums, std::size_t chunks) {
  const std::size_t blocks = sums.size() - 1;
  const Borders fastest =
      best_cut(blocks, chunks, kNever, [&](double before, std::size_t begin, std::size_t end) {
        return std::max(before, sums[end] - sums[begin]);
      });
  const double limit = slowest_chunk(fastest, sums);
  return best_cut(blocks, chunks, kNever, [&](double before, std::size_t begin, std::size_t end) {
    const double cost = sums[end] - sums[begin];
    return cost > limit ? kNever : before + cost * cost;
  });
}

// Less is better: the slowest stage, then how uneven stages are, then how uneven chunks are.
using Score = std::tuple<double, double, double>;

struct Problem {
  const std::vector<double>& sums;
  const std::vector<Stage>& stage_of;

  std::size_t chunks() const { return stage_of.size(); }
  std::size_t blocks() const { return sums.size() - 1; }
  Score score(const Borders& borders) const;
};

Score Problem::score(const Borders& borders) const {
  std::vector<double> stages(chunks());  // there are no more
  double uneven_chunks = 0;
  for (std::size_t c = 0; c < chunks(); ++c) {
    const double cost = sums[borders[c + 1]] - sums[borders[c]];
    stages[static_cast<std::size_t>(stage_of[c])] += cost;
    uneven_chunks += cost * cost;
  }
  const double uneven = std::inner_product(stages.begin(), stages.end(), stages.begin(), 0.0);
  return {std::ranges::max(stages), uneven, uneven_chunks};
}

// Moves borders as long as that makes it better.
class BorderSearch {
 public:
  BorderSearch(const Problem& problem, Borders borders)
      : problem_(problem), borders_(std::move(borders)), score_(problem.score(borders_)) {}

  Borders run() {
    while (improve()) {
    }
    return borders_;
  }

 private:
  bool improve();
  bool attempt(std::size_t first, int by, std::size_t second, int by_second);
  bool in_order() const {
    return std::ranges::adjacent_find(borders_, std::greater_equal<>()) == borders_.end();
  }

  const Problem& problem_;
  Borders borders_;
  Score score_;
};

bool BorderSearch::attempt(std::size_t first, int by, std::size_t second, int by_second) {
  const std::size_t was[] = {borders_[first], borders_[second]};
  borders_[first] += static_cast<std::size_t>(by);
  borders_[second] += static_cast<std::size_t>(by_second);
  if (in_order()) {
    const Score moved = problem_.score(borders_);
    if (moved < score_) {
      score_ = moved;
      return true;
    }
  }
  borders_[first] = was[0];
  borders_[second] = was[1];
  return false;
}

// One border by a block, or two.
bool BorderSearch::improve() {
  const std::size_t last = borders_.size() - 1;
  for (std::size_t first = 1; first < last; ++first)
    for (const int by : {-1, 1})
      if (attempt(first, by, first, 0)) return true;
  for (std::size_t first = 1; first < last; ++first)
    for (std::size_t second = first + 1; second < last; ++second)
      for (const int by : {-1, 1})
        for (const int by_second : {-1, 1})
          if (attempt(first, by, second, by_second)) return true;
  return false;
}

// Tries all partitions but those that begin with a stage slower than the slowest of the best so
// far; gives up after so many beginnings.
class WholeSearch {
 public:
  WholeSearch(const Problem& problem, Borders best)
      : problem_(problem),
        best_(std::move(best)),
        score_(problem.score(best_)),
        borders_{0},
        stages_(problem.chunks()) {}

  Borders run() {
    extend();
    return best_;
  }

 private:
  void extend();

  const Problem& problem_;
  Borders best_;
  Score score_;
  Borders borders_;  // of the beginning under way
  std::vector<double> stages_;
  std::int64_t beginnings_left_ = 1'000'000;
};

void WholeSearch::extend() {
  const std::size_t chunk = borders_.size() - 1;
  const std::size_t begin = borders_.back();
  if (chunk == problem_.chunks()) {
    const Score score = problem_.score(borders_);
    if (score < score_) {
      score_ = score;
      best_ = borders_;
    }
    return;
  }
  const std::size_t after = problem_.chunks() - chunk - 1;  // each gets a block
  double& stage = stages_[static_cast<std::size_t>(problem_.stage_of[chunk])];
  const double before = stage;
  for (std::size_t end = after == 0 ? problem_.blocks() : begin + 1;
       end + after <= problem_.blocks(); ++end) {
    stage = before + problem_.sums[end] - problem_.sums[begin];
    if (stage > std::get<0>(score_) || --beginnings_left_ < 0) break;
    borders_.push_back(end);
    extend();
    borders_.pop_back();
  }
  stage = before;
}

bool one_chunk_each(const std::vector<Stage>& stage_of) {
  std::vector<Stage> stages = stage_of;
  std::ranges::sort(stages);
  return std::ranges::adjacent_find(stages) == stages.end();
}

Partition ranges(const Borders& borders) {
  Partition partition;
  for (std::size_t c = 0; c + 1 < borders.size(); ++c)
    partition.push_back(
        {static_cast<std::int32_t>(borders[c]), static_cast<std::int32_t>(borders[c + 1])});
  return partition;
}

Status check_enough(PartitionSize size) {
  if (size.blocks >= size.chunks) return ok();
  return bad_partition(fmt::format(
      "{} blocks cannot fill {} chunks of a pipeline; take fewer stages, fewer chunks a stage, or "
      "a model of more blocks",
      size.blocks, size.chunks));
}

}  // namespace

Result<Partition> partition_by_cost(std::span<const Duration> costs,
                                    const std::vector<Stage>& stage_of) {
  MUSTER_CHECK(!stage_of.empty(), "a pipeline has chunks");
  MUSTER_TRY(check_enough(
      {static_cast<std::int32_t>(costs.size()), static_cast<std::int32_t>(stage_of.size())}));
  const std::vector<double> sums = running_sums(costs);
  Borders borders = even_cut(sums, stage_of.size());
  if (one_chunk_each(stage_of)) return ranges(borders);
  const Problem problem{sums, stage_of};
  return ranges(WholeSearch(problem, BorderSearch(problem, std::move(borders)).run()).run());
}

Result<Partition> partition_by_hand(std::span<const std::int32_t> counts, PartitionSize size) {
  MUSTER_TRY(check_enough(size));
  if (std::ssize(counts) != size.chunks)
    return bad_partition(fmt::format("{} counts of blocks for {} chunks; write one for each",
                                     counts.size(), size.chunks));
  Partition partition;
  std::int64_t sum = 0;
  for (const std::int32_t count : counts) {
    if (count < 1)
      return bad_partition(
          fmt::format("chunk {} has {} blocks; expected at least 1", partition.size(), count));
    partition.push_back({static_cast<std::int32_t>(sum), static_cast<std::int32_t>(sum + count)});
    sum += count;
    if (sum > size.blocks) break;
  }
  if (sum == size.blocks) return partition;
  return bad_partition(fmt::format("chunks of {} blocks{}, and the model has {}", sum,
                                   sum > size.blocks ? " or more" : "", size.blocks));
}

std::vector<Duration> stage_costs(const Partition& partition, std::span<const Duration> costs,
                                  const std::vector<Stage>& stage_of) {
  const auto last = to_int(*std::ranges::max_element(stage_of));
  std::vector<Duration> stages(static_cast<std::size_t>(last) + 1);
  for (std::size_t chunk = 0; chunk < partition.size(); ++chunk)
    for (std::int32_t block = partition[chunk].begin; block < partition[chunk].end; ++block)
      stages[static_cast<std::size_t>(stage_of[chunk])] += costs[static_cast<std::size_t>(block)];
  return stages;
}

std::vector<ChunkCost> chunk_costs(const Partition& partition, std::span<const ChunkCost> blocks) {
  std::vector<ChunkCost> chunks;
  for (const BlockRange& range : partition) {
    ChunkCost sum;
    for (std::int32_t i = range.begin; i < range.end; ++i) {
      const ChunkCost& block = blocks[static_cast<std::size_t>(i)];
      sum.forward += block.forward;
      sum.backward_input += block.backward_input;
      sum.backward_weight += block.backward_weight;
      sum.output_bytes = block.output_bytes;
    }
    chunks.push_back(sum);
  }
  return chunks;
}

Chunk chunk_of(const Partition& partition, std::int32_t block) {
  const auto found = std::ranges::find_if(partition, [&](const BlockRange& range) {
    return block >= range.begin && block < range.end;
  });
  MUSTER_CHECK(found != partition.end(), "a block of the model");
  return Chunk{static_cast<std::int32_t>(found - partition.begin())};
}

std::vector<Stage> holders_of(const TiedBlocks& tied, const Partition& partition,
                              const std::vector<Stage>& stage_of) {
  std::vector<Stage> holders;
  holders.reserve(tied.blocks.size());
  for (const std::int32_t block : tied.blocks)
    holders.push_back(stage_of[static_cast<std::size_t>(chunk_of(partition, block))]);
  std::ranges::sort(holders);
  const auto twice = std::ranges::unique(holders);
  holders.erase(twice.begin(), twice.end());
  return holders;
}

}  // namespace muster::layout
