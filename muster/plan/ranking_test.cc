#include "muster/plan/ranking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "muster/plan/testing/profiles.h"

namespace muster::plan {
namespace {

using testing::blocks_alike;
using testing::free_hardware;

Way spread(Spread spread, std::int32_t workers = 4) {
  Way way = testing::way(workers);
  way.spread = spread;
  if (spread == Spread::kPipeline) way.stages = workers;
  return way;
}

// One worker's optimizer state, activations and gradients are all that the ways differ in.
std::vector<Candidate> usual_candidates() {
  Way saves = spread(Spread::kData);
  saves.recomputed = std::vector<bool>(8, true);
  return {{.name = "data", .way = spread(Spread::kData), .plain = true},
          {.name = "data, recomputed", .way = saves, .plain = true},
          {.name = "sharded", .way = spread(Spread::kSharded)},
          {.name = "pipeline", .way = spread(Spread::kPipeline)},
          {.name = "no", .way = fail(ErrorCode::kInvalid, "the job says no")}};
}

std::vector<RankedWay> rank_with(std::uint64_t memory) {
  Hardware hardware = free_hardware();
  hardware.memory = memory;
  return rank_ways(blocks_alike(8), usual_candidates(), hardware);
}

std::string best_with(std::uint64_t memory) {
  const auto candidates = usual_candidates();
  const auto ranking = rank_with(memory);
  const RankedWay* best = best_of(ranking, candidates);
  return best ? candidates[best->candidate].name : "none";
}

TEST(Ranking, TheFastestThatFitsIsFirst) {
  EXPECT_EQ(best_with(std::numeric_limits<std::uint64_t>::max()), "data");
  std::vector<std::string> order;
  for (const RankedWay& way : rank_with(std::numeric_limits<std::uint64_t>::max()))
    order.push_back(usual_candidates()[way.candidate].name);
  EXPECT_EQ(order,
            (std::vector<std::string>{"data", "sharded", "data, recomputed", "pipeline", "no"}));
}

TEST(Ranking, LessMemoryNeverMakesMorePossibleOrFaster) {
  std::size_t possible = 0;
  Duration fastest = Duration::max();
  std::set<std::string> winners;
  for (std::uint64_t memory = 0; memory < 400'000; memory += 1'000) {
    const auto ranking = rank_with(memory);
    const auto count = static_cast<std::size_t>(
        std::ranges::count_if(ranking, [](const auto& way) { return way.possible(); }));
    EXPECT_GE(count, possible) << memory;
    possible = count;
    winners.insert(best_with(memory));
    if (count == 0) continue;
    EXPECT_LE(ranking.front().estimate->time.total(), fastest) << memory;
    fastest = ranking.front().estimate->time.total();
  }
  EXPECT_EQ(possible, 4u);
  EXPECT_EQ(winners.size(), 5u) << "none, and each of the ways somewhere";
}

TEST(Ranking, EveryWayHasAReason) {
  for (const std::uint64_t memory :
       {std::uint64_t{0}, std::uint64_t{150'000}, std::uint64_t{1} << 40})
    for (const RankedWay& way : rank_with(memory)) EXPECT_FALSE(way.reason.empty());
  const auto ranking = rank_with(1'000);
  EXPECT_EQ(ranking.back().reason, "the job says no");
  EXPECT_NE(ranking.front().reason.find("more than a worker may take (1000 B)"), std::string::npos)
      << ranking.front().reason;
  EXPECT_EQ(best_with(1'000), "none");
  const auto all = rank_with(std::uint64_t{1} << 40);
  EXPECT_EQ(all[0].reason, "the fastest that fits in memory");
  EXPECT_EQ(all[1].reason, "as fast as the best");
  EXPECT_NE(all[2].reason.find("more computing"), std::string::npos) << all[2].reason;
  EXPECT_NE(all[3].reason.find("more waiting for other stages"), std::string::npos)
      << all[3].reason;
}

TEST(Ranking, WhatWasOnlyCountedIsRankedByMemory) {
  ModelProfile profile = blocks_alike(8);
  profile.not_measured = "nothing was run";
  const auto candidates = usual_candidates();
  const auto ranking = rank_ways(profile, candidates, free_hardware());
  ASSERT_EQ(candidates[ranking.front().candidate].name, "pipeline");
  EXPECT_EQ(best_of(ranking, candidates), &ranking.front());
  EXPECT_NE(ranking.front().reason.find("needs least memory"), std::string::npos);
  for (std::size_t i = 1; i + 1 < ranking.size(); ++i) {
    EXPECT_GE(ranking[i].estimate->memory.total(), ranking[i - 1].estimate->memory.total());
    EXPECT_NE(ranking[i].reason.find(" more than the first"), std::string::npos)
        << ranking[i].reason;
  }
}

// 3 workers have 3 slices at most, a pipeline of 8 slices over 3 stages is another matter.
TEST(Ranking, APlainWayThatIsNearlyAsFastWins) {
  ModelProfile profile = blocks_alike(8);
  profile.update = std::chrono::milliseconds(1);  // which shards share
  const std::vector<Candidate> candidates = {
      {.name = "sharded", .way = spread(Spread::kSharded)},
      {.name = "data", .way = spread(Spread::kData), .plain = true}};
  auto ranking = rank_ways(profile, candidates, free_hardware());
  EXPECT_EQ(ranking.front().candidate, 1u);
  EXPECT_NE(ranking.front().reason.find("as any within 5 %"), std::string::npos);
  profile.update = std::chrono::milliseconds(30);
  ranking = rank_ways(profile, candidates, free_hardware());
  EXPECT_EQ(ranking.front().candidate, 0u);
  EXPECT_NE(ranking.back().reason.find("more update"), std::string::npos) << ranking.back().reason;
}

TEST(Ranking, OtherBitsAreShownAndNotChosen) {
  auto candidates = usual_candidates();
  for (Candidate& candidate : candidates) candidate.same_bits = candidate.name == "pipeline";
  const auto ranking = rank_ways(blocks_alike(8), candidates, free_hardware());
  EXPECT_EQ(candidates[ranking.front().candidate].name, "sharded");
  const RankedWay* best = best_of(ranking, candidates);
  EXPECT_EQ(candidates[best->candidate].name, "pipeline");
  EXPECT_EQ(best->reason, "the fastest that fits in memory");
  EXPECT_EQ(ranking.front().reason, "0.73× the time of the best");
}

// What rounds differently is chosen only where nothing else fits.
TEST(Ranking, TheLastResortIsTheLast) {
  Way small = spread(Spread::kSharded);
  small.zero_stage = 1;
  Way large = spread(Spread::kData);
  large.lanes = 2;
  const auto best_within = [&](std::uint64_t memory) {
    const std::vector<Candidate> candidates = {
        {.name = "same", .way = large, .plain = true},
        {.name = "other", .way = small, .same_bits = false, .last_resort = true},
        {.name = "never", .way = small, .same_bits = false}};
    Hardware hardware = free_hardware();
    hardware.memory = memory;
    const auto ranking = rank_ways(blocks_alike(8), candidates, hardware);
    const RankedWay* best = best_of(ranking, candidates);
    return best ? candidates[best->candidate].name + ": " + best->reason : std::string("none");
  };
  const auto need = [&](const Way& way) {
    return estimate(blocks_alike(8), way, free_hardware()).value().memory.total();
  };
  ASSERT_LT(need(small), need(large));
  EXPECT_EQ(best_within(need(large)), "same: the fastest that fits in memory");
  EXPECT_TRUE(best_within(need(large) - 1).starts_with("other: nothing that leaves the bits"));
  EXPECT_EQ(best_within(need(small) - 1), "none");
}

}  // namespace
}  // namespace muster::plan
