// Schedules are played here for all ranks at once, with symbols for elements, at every size from 1
// to 64: every contribution once and in the right place, nobody waits for ever, nobody leaves its
// memory; and what they send.

#include "muster/comm/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <string>

#include "muster/base/testing/sanitized.h"
#include "muster/comm/testing/symbolic_play.h"

namespace muster::comm {
namespace {

using symbolic::is_whole_sum;
using symbolic::leaf;
using symbolic::leaves;
using symbolic::Symbol;
using symbolic::SymbolicPlay;
using symbolic::SymbolicRank;
using symbolic::Symbols;
using Kind = Collective::Kind;

constexpr std::int32_t kLargest = kSanitized ? 20 : 64;

TensorView elements(std::int64_t count) { return {DType::kF32, {count}, {}}; }

SymbolicPlay play_of(const Op& op, const Method& method, const Topology& topology, std::int64_t in,
                     std::int64_t out) {
  std::vector<SymbolicRank> ranks;
  for (std::int32_t rank = 0; rank < topology.size(); ++rank)
    ranks.push_back(
        {make_schedule(op, method, Rank{rank}, topology), leaves(rank, in), leaves(rank, out)});
  return SymbolicPlay(std::move(ranks));
}

// Ranks in turn, neighbours together, and hosts of one, two, four … ranks.
std::vector<Topology> topologies_of(std::int32_t size) {
  std::vector<Topology> all{Topology::apart(size)};
  if (size < 3) return all;
  std::vector<std::int32_t> in_turn, together, growing;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    in_turn.push_back(rank % 3);
    together.push_back(rank / ((size + 1) / 2));
    growing.push_back(std::bit_width(static_cast<std::uint32_t>(rank)));
  }
  for (const auto& hosts : {in_turn, together, growing}) all.emplace_back(hosts);
  return all;
}

// Calls test(topology, method) for everything an operation can do.
template <class Test>
void for_all_ways(Kind kind, const Test& test) {
  for (std::int32_t size = 1; size <= kLargest; ++size)
    for (const Topology& topology : topologies_of(size))
      for (const Method& method : methods_of(kind, topology)) {
        const bool flat = method.algorithm != Algorithm::kHierarchical;
        if (flat && topology.hosts() < size) continue;  // the same as when all are apart
        SCOPED_TRACE(
            fmt::format("{} on {} ranks of {} hosts", describe(method), size, topology.hosts()));
        test(topology, method);
        if (::testing::Test::HasFatalFailure()) return;
      }
}

void expect_sums(SymbolicPlay& play, std::int32_t size, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    ASSERT_TRUE(is_whole_sum(play[0].output[at], size, i)) << i;
    for (std::int32_t rank = 1; rank < size; ++rank)
      ASSERT_EQ(play[rank].output[at], play[0].output[at]) << "rank " << rank << " at " << i;
  }
}

TEST(Schedule, AllReduceSumsEverybodyOnceAndAlikeEverywhere) {
  for_all_ways(Kind::kAllReduce, [](const Topology& topology, const Method& method) {
    const std::int32_t size = topology.size();
    for (const std::int64_t count : {0, 1, size + 3}) {
      auto play = play_of(AllReduce{elements(count)}, method, topology, 0, count);
      ASSERT_EQ(play.run(), "");
      expect_sums(play, size, count);
    }
  });
}

// Those that cut what they send do so where it is long.
TEST(Schedule, LongOnesGoInPieces) {
  constexpr std::int64_t kCount = 70001;
  for (const std::int32_t size : {2, 3, 5, 12, 16}) {
    const Topology topology = Topology::apart(size);
    auto tree = play_of(AllReduce{elements(kCount)}, {Algorithm::kDoubleTree}, topology, 0, kCount);
    ASSERT_EQ(tree.run(), "");
    expect_sums(tree, size, kCount);
    EXPECT_GE(tree[1].messages, 8);
    auto chain = play_of(Broadcast{elements(kCount)}, {Algorithm::kRing}, topology, 0, kCount);
    ASSERT_EQ(chain.run(), "");
    EXPECT_EQ(chain[size - 1].output, leaves(0, kCount));
    EXPECT_EQ(chain[0].messages, 3);
  }
}

std::int64_t rounds(std::int32_t size) {
  return std::bit_width(static_cast<std::uint32_t>(size - 1));
}

using Sent = std::pair<std::int64_t, std::int64_t>;  // messages, elements

Sent most_sent(SymbolicPlay& play, std::int32_t size) {
  Sent most{0, 0};
  for (std::int32_t rank = 0; rank < size; ++rank) {
    most.first = std::max(most.first, play[rank].messages);
    most.second = std::max(most.second, play[rank].elements);
  }
  return most;
}

TEST(Schedule, AllReduceSendsWhatItsFormulaSays) {
  for (std::int32_t size = 1; size <= kLargest; ++size) {
    const std::int64_t count = 12 * size;  // divides evenly
    const auto sent = [&](Algorithm algorithm) {
      auto play = play_of(AllReduce{elements(count)}, {algorithm}, Topology::apart(size), 0, count);
      EXPECT_EQ(play.run(), "");
      return most_sent(play, size);
    };
    const std::int64_t optimal = 2 * (size - 1) * count / size;
    EXPECT_EQ(sent(Algorithm::kRing), Sent(2 * (size - 1), optimal));
    EXPECT_EQ(sent(Algorithm::kBidirectionalRing), Sent(2 * (size - 1), optimal));
    EXPECT_EQ(sent(Algorithm::kDirect), Sent(size - 1, (size - 1) * count));
    const auto doubling = sent(Algorithm::kHalvingDoubling);
    EXPECT_EQ(doubling.second, optimal);
    EXPECT_LE(doubling.first, 4 * rounds(size));  // a round wraps at most once
    EXPECT_LE(sent(Algorithm::kTree).second, 2 * rounds(size) * count);
    EXPECT_LE(sent(Algorithm::kDoubleTree).second, 2 * count);
  }
}

// Whoever passes on in one tree, and so gets from children, only gives in the other.
TEST(Schedule, InADoubleTreeNobodyPassesOnInBoth) {
  for (std::int32_t size = 2; size <= kLargest; ++size)
    for (std::int32_t rank = 0; rank < size; ++rank) {
      const Schedule schedule = all_reduce_schedule(Algorithm::kDoubleTree, {Rank{rank}, size}, 2);
      bool passes_on[2] = {};
      for (const ScheduleStep& step : schedule.steps)
        if (step.kind == ScheduleStep::Kind::kReduce) passes_on[step.to.begin] = true;
      EXPECT_FALSE(passes_on[0] && passes_on[1]) << rank << " of " << size;
    }
}

// Between hosts goes what the outer algorithm sends of each column's share, and no more.
TEST(Schedule, TwoLevelsSendLittleBetweenHosts) {
  constexpr std::int32_t kHosts = 4, kEach = 3, kSize = kHosts * kEach;
  constexpr std::int64_t kCount = 12 * kSize;
  const Topology topology = Topology::regular(kHosts, kEach);
  for (const Method& method : methods_of(Kind::kAllReduce, topology)) {
    if (method.algorithm != Algorithm::kHierarchical || method.outer != Algorithm::kRing) continue;
    std::int64_t between = 0;
    for (std::int32_t rank = 0; rank < kEach; ++rank)
      for (const ScheduleStep& step :
           make_schedule(AllReduce{elements(kCount)}, method, Rank{rank}, topology).steps)
        if (step.kind == ScheduleStep::Kind::kSend && !topology.share_host(Rank{0}, step.peer))
          between += step.from.count;
    EXPECT_EQ(between, 2 * (kHosts - 1) * kCount / kHosts) << describe(method);
  }
}

TEST(Schedule, OrderedAllReduceFollowsTheTree) {
  for (const std::int32_t leaf_count : {5, 13, 16})  // some ranks have none
    for (std::int32_t size = 1; size <= kLargest; ++size)
      for (const std::int64_t count : {0, 1, 3, 29}) {
        const SumTree tree(leaf_count, size);
        std::vector<SymbolicRank> ranks;
        Symbols expected;
        for (std::int32_t part = 0; part < tree.part_count(); ++part)
          expected.push_back(leaf(part, 0));
        for (std::int32_t rank = 0; rank < size; ++rank) {
          Symbols rows;
          const auto parts = static_cast<std::int32_t>(tree.parts(Rank{rank}).size());
          for (std::int32_t row = 0; row < tree.rows(Rank{rank}); ++row)
            for (std::int64_t i = 0; i < count; ++i)
              rows.push_back(row < parts ? leaf(tree.first_part(Rank{rank}) + row, 0) : Symbol{});
          ranks.push_back({ordered_all_reduce_schedule(tree, Rank{rank}, count), {}, rows});
        }
        SymbolicPlay play(std::move(ranks), 16);
        ASSERT_EQ(play.run(), "");
        for (const auto& [left, right] : tree.sums()) {
          Symbol& to = expected[static_cast<std::size_t>(left)];
          to = symbolic::sum(to, expected[static_cast<std::size_t>(right)]);
        }
        const Symbol total = expected[static_cast<std::size_t>(tree.total_part())];
        for (std::int32_t rank = 0; rank < size; ++rank)
          for (std::int64_t i = 0; i < count; ++i)
            ASSERT_EQ(play[rank].output[static_cast<std::size_t>(i)], total);
      }
}

TEST(Schedule, ReduceScatterGivesEachRankItsBlock) {
  for_all_ways(Kind::kReduceScatter, [](const Topology& topology, const Method& method) {
    const std::int32_t size = topology.size();
    for (const std::int64_t count : {0, 1, 3}) {
      auto play = play_of(ReduceScatter{elements(count), elements(size * count)}, method, topology,
                          size * count, count);
      ASSERT_EQ(play.run(), "");
      for (std::int32_t rank = 0; rank < size; ++rank) {
        if (method.algorithm != Algorithm::kHierarchical) {
          ASSERT_EQ(play[rank].elements, (size - 1) * count);
        }
        for (std::int64_t i = 0; i < count; ++i)
          ASSERT_TRUE(
              is_whole_sum(play[rank].output[static_cast<std::size_t>(i)], size, rank * count + i));
      }
    }
  });
}

TEST(Schedule, AllGatherBringsEveryBlockEverywhere) {
  for_all_ways(Kind::kAllGather, [](const Topology& topology, const Method& method) {
    const std::int32_t size = topology.size();
    for (const std::int64_t count : {0, 1, 3}) {
      auto play = play_of(AllGather{elements(size * count), elements(count)}, method, topology,
                          count, size * count);
      ASSERT_EQ(play.run(), "");
      for (std::int32_t rank = 0; rank < size; ++rank) {
        if (method.algorithm != Algorithm::kHierarchical) {
          ASSERT_EQ(play[rank].elements, (size - 1) * count);
        }
        for (std::int64_t i = 0; i < size * count; ++i)
          ASSERT_EQ(play[rank].output[static_cast<std::size_t>(i)],
                    leaf(static_cast<std::int32_t>(i / count), i % count));
      }
    }
  });
}

// Some ranks have none.
std::shared_ptr<const Shards> uneven_shards(std::int32_t size) {
  Shards shards{{0}};
  for (std::int32_t rank = 0; rank < size; ++rank)
    shards.begin.push_back(shards.begin.back() + (rank * 5 + 2) % 4);
  return std::make_shared<const Shards>(std::move(shards));
}

TEST(Schedule, ShardsMayBeUneven) {
  for_all_ways(Kind::kReduceScatter, [](const Topology& topology, const Method& method) {
    const auto shards = uneven_shards(topology.size());
    const TensorView row = elements(shards->count());
    auto play = play_of(ReduceScatter{elements(0), row, Reduce::kSum, shards}, method, topology,
                        shards->count(), 3);
    ASSERT_EQ(play.run(), "");
    for (std::int32_t rank = 0; rank < topology.size(); ++rank)
      for (std::int64_t i = 0; i < shards->count_of(Rank{rank}); ++i)
        ASSERT_TRUE(is_whole_sum(play[rank].output[static_cast<std::size_t>(i)], topology.size(),
                                 shards->begin_of(Rank{rank}) + i));
  });
  for_all_ways(Kind::kAllGather, [](const Topology& topology, const Method& method) {
    const auto shards = uneven_shards(topology.size());
    auto play = play_of(AllGather{elements(shards->count()), elements(0), shards}, method, topology,
                        3, shards->count());
    ASSERT_EQ(play.run(), "");
    for (std::int32_t rank = 0; rank < topology.size(); ++rank)
      for (std::int32_t from = 0; from < topology.size(); ++from)
        for (std::int64_t i = 0; i < shards->count_of(Rank{from}); ++i)
          ASSERT_EQ(play[rank].output[static_cast<std::size_t>(shards->begin_of(Rank{from}) + i)],
                    leaf(from, i));
  });
}

TEST(Schedule, BroadcastReachesEverybodyFromEveryRoot) {
  for_all_ways(Kind::kBroadcast, [](const Topology& topology, const Method& method) {
    const std::int32_t size = topology.size();
    for (std::int32_t root = 0; root < size; ++root) {
      auto play = play_of(Broadcast{elements(2), Rank{root}}, method, topology, 0, 2);
      ASSERT_EQ(play.run(), "");
      for (std::int32_t rank = 0; rank < size; ++rank)
        ASSERT_EQ(play[rank].output, leaves(root, 2)) << root;
    }
  });
}

TEST(Schedule, AllToAllTransposes) {
  for_all_ways(Kind::kAllToAll, [](const Topology& topology, const Method& method) {
    const std::int32_t size = topology.size();
    constexpr std::int64_t kBlock = 2;
    const TensorView all = elements(size * kBlock);
    auto play = play_of(AllToAll{all, all}, method, topology, size * kBlock, size * kBlock);
    ASSERT_EQ(play.run(), "");
    for (std::int32_t rank = 0; rank < size; ++rank)
      for (std::int64_t i = 0; i < size * kBlock; ++i)
        ASSERT_EQ(play[rank].output[static_cast<std::size_t>(i)],
                  leaf(static_cast<std::int32_t>(i / kBlock), rank * kBlock + i % kBlock));
    const bool bruck = method.algorithm == Algorithm::kBruck;
    EXPECT_EQ(play[0].messages, bruck ? rounds(size) : size - 1);
  });
}

// What rank `from` has for rank `to`; some have nothing.
std::int64_t rows_for(std::int32_t from, std::int32_t to) { return (from * 7 + to * 3) % 5; }

Shards shards_by(std::int32_t size, const std::function<std::int64_t(std::int32_t)>& count) {
  Shards shards{{0}};
  for (std::int32_t rank = 0; rank < size; ++rank)
    shards.begin.push_back(shards.begin.back() + count(rank));
  return shards;
}

TEST(Schedule, AllToAllOfUnevenBlocks) {
  for (std::int32_t size = 1; size <= kLargest; ++size) {
    const auto leaving = [size](std::int32_t from) {
      return shards_by(size, [from](std::int32_t to) { return rows_for(from, to); });
    };
    const auto arriving = [size](std::int32_t to) {
      return shards_by(size, [to](std::int32_t from) { return rows_for(from, to); });
    };
    std::vector<SymbolicRank> ranks;
    for (std::int32_t rank = 0; rank < size; ++rank)
      ranks.push_back({all_to_all_schedule({Rank{rank}, size}, leaving(rank), arriving(rank)),
                       leaves(rank, leaving(rank).count()),
                       Symbols(static_cast<std::size_t>(arriving(rank).count()))});
    SymbolicPlay play(std::move(ranks));
    ASSERT_EQ(play.run(), "");
    for (std::int32_t to = 0; to < size; ++to)
      for (std::int32_t from = 0; from < size; ++from)
        for (std::int64_t i = 0; i < rows_for(from, to); ++i)
          ASSERT_EQ(
              play[to].output[static_cast<std::size_t>(arriving(to).begin_of(Rank{from}) + i)],
              leaf(from, leaving(from).begin_of(Rank{to}) + i));
  }
}

TEST(Schedule, BarrierTakesLogarithmicallyManyEmptyMessages) {
  for (std::int32_t size = 1; size <= kLargest; ++size) {
    auto play = play_of(Barrier{}, {Algorithm::kDirect}, Topology::apart(size), 0, 0);
    ASSERT_EQ(play.run(), "");
    EXPECT_EQ(play[0].messages, size == 1 ? 0 : rounds(size));
    EXPECT_EQ(play[0].elements, 0);
  }
}

// The play itself, on schedules with one mistake each.
class PlantedFault : public ::testing::Test {
 protected:
  // Of rank 1 of four in a ring: send, receive, reduce, three times; then send, receive.
  static std::string outcome(const std::function<void(Schedule&)>& spoil) {
    constexpr std::int64_t kCount = 8;
    auto play =
        play_of(AllReduce{elements(kCount)}, {Algorithm::kRing}, Topology::apart(4), 0, kCount);
    spoil(play[1].schedule);
    SymbolicPlay spoilt({play[0], play[1], play[2], play[3]}, 2);
    if (std::string fault = spoilt.run(); !fault.empty()) return fault;
    for (std::int32_t rank = 0; rank < 4; ++rank)
      for (std::int64_t i = 0; i < kCount; ++i)
        if (!is_whole_sum(spoilt[rank].output[static_cast<std::size_t>(i)], 4, i))
          return "a wrong sum";
    return "";
  }
};

TEST_F(PlantedFault, IsFound) {
  EXPECT_EQ(outcome([](Schedule&) {}), "");
  const auto at = [](Schedule& s, std::ptrdiff_t step) { return s.steps.begin() + step; };
  EXPECT_EQ(outcome([&](Schedule& s) { s.steps.erase(at(s, 0)); }),
            "rank 2 waits for ever in step 14");
  EXPECT_EQ(outcome([&](Schedule& s) { s.steps.erase(at(s, 1)); }),
            "rank 1, step 1: reads what nobody wrote");
  EXPECT_EQ(outcome([&](Schedule& s) { s.steps.erase(at(s, 2)); }), "a wrong sum");
  EXPECT_EQ(outcome([&](Schedule& s) { s.steps.insert(at(s, 2), s.steps[2]); }), "a wrong sum");
  EXPECT_EQ(outcome([&](Schedule& s) { s.steps[0].from.begin = 2; }), "a wrong sum");
  EXPECT_EQ(outcome([&](Schedule& s) { s.steps[0].from.count = 1; }),
            "rank 2, step 1: gets 1 elements, takes 2");
  EXPECT_EQ(outcome([&](Schedule& s) { s.steps[0].from.begin = 7; }),
            "rank 1, step 0: sends from beyond its memory");
  EXPECT_EQ(outcome([&](Schedule& s) { s.steps[1].to.begin = 1; }),
            "rank 1, step 1: receives to beyond its memory");
  EXPECT_EQ(outcome([&](Schedule& s) { s.steps[2].to.begin = 7; }),
            "rank 1, step 2: works beyond its memory");
  EXPECT_EQ(outcome([&](Schedule& s) { s.steps[0].peer = Rank{1}; }),
            "rank 1, step 0: no such peer");
  EXPECT_NE(outcome([&](Schedule& s) { s.steps[0].peer = Rank{3}; }), "");
  EXPECT_EQ(outcome([&](Schedule& s) { s.steps.push_back(s.steps[0]); }),
            "rank 2 never takes a message of rank 1");
  EXPECT_EQ(outcome([&](Schedule& s) { s.scratch = 1; }),
            "rank 1, step 1: receives to beyond its memory");
}

TEST_F(PlantedFault, OfAllRanksThatReceiveFirstIsFound) {
  std::vector<SymbolicRank> ranks;
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    ranks.push_back(
        {all_reduce_schedule(Algorithm::kRing, {Rank{rank}, 4}, 8), {}, leaves(rank, 8)});
    auto& steps = ranks.back().schedule.steps;
    std::swap(steps[0], steps[1]);
  }
  EXPECT_EQ(SymbolicPlay(std::move(ranks)).run(), "rank 0 waits for ever in step 0");
}

}  // namespace
}  // namespace muster::comm
