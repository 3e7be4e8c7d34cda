// Schedules are played here for all ranks at once, in memory: results, messages, bytes.

#include "muster/comm/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <string>

#include "muster/base/tensor_view.h"

namespace muster::comm {
namespace {

// Elements are texts: "a+b" says what was added to what, in which order.
using Elements = std::vector<std::string>;

struct Player {
  Schedule schedule;
  Elements input, output, scratch{};
  std::size_t next = 0;
  std::int64_t messages = 0;
  std::int64_t elements = 0;

  Elements& space(Space s) {
    return s == Space::kInput ? input : s == Space::kOutput ? output : scratch;
  }
  std::string& at(const Slice& slice, std::int64_t i) {
    return space(slice.space).at(static_cast<std::size_t>(slice.begin + i));
  }
};

class Simulation {
 public:
  explicit Simulation(std::vector<Player> players) : players_(std::move(players)) {
    for (Player& player : players_)
      player.scratch.resize(static_cast<std::size_t>(player.schedule.scratch), "?");
  }

  // False: some rank waits for a message that never comes, or one is left over.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < players_.size(); ++rank)
        while (step(rank)) moved = true;
    }
    const bool finished = std::ranges::all_of(
        players_, [](const Player& p) { return p.next == p.schedule.steps.size(); });
    return finished && std::ranges::all_of(wires_, [](const auto& w) { return w.second.empty(); });
  }

  Player& operator[](std::size_t rank) { return players_[rank]; }

 private:
  bool step(std::size_t rank) {
    Player& me = players_[rank];
    if (me.next == me.schedule.steps.size()) return false;
    const ScheduleStep& step = me.schedule.steps[me.next];
    const auto peer = static_cast<std::size_t>(to_int(step.peer));
    if (step.kind == ScheduleStep::Kind::kSend) {
      Elements sent;
      for (std::int64_t i = 0; i < step.from.count; ++i) sent.push_back(me.at(step.from, i));
      wires_[{rank, peer}].push_back(sent);
      ++me.messages;
      me.elements += step.from.count;
    } else if (step.kind == ScheduleStep::Kind::kRecv) {
      auto& wire = wires_[{peer, rank}];
      if (wire.empty()) return false;
      EXPECT_EQ(static_cast<std::int64_t>(wire.front().size()), step.to.count);
      for (std::int64_t i = 0; i < step.to.count; ++i)
        me.at(step.to, i) = wire.front().at(static_cast<std::size_t>(i));
      wire.pop_front();
    } else {
      for (std::int64_t i = 0; i < step.to.count; ++i) {
        const std::string from = me.at(step.from, i);
        std::string& to = me.at(step.to, i);
        to = step.kind == ScheduleStep::Kind::kCopy ? from : "(" + to + "+" + from + ")";
      }
    }
    ++me.next;
    return true;
  }

  std::vector<Player> players_;
  std::map<std::pair<std::size_t, std::size_t>, std::deque<Elements>> wires_;
};

constexpr std::int32_t kSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 13};
constexpr std::int64_t kCounts[] = {0, 1, 3, 8, 29};

std::string element(std::int32_t rank, std::int64_t i) {
  return "r" + std::to_string(rank) + "i" + std::to_string(i) + ";";
}

Elements elements_of(std::int32_t rank, std::int64_t count) {
  Elements all;
  for (std::int64_t i = 0; i < count; ++i) all.push_back(element(rank, i));
  return all;
}

// Each rank's element i is in `sum` exactly once, and nothing else.
void expect_sum_of_all(const std::string& sum, std::int32_t size, std::int64_t i) {
  std::size_t length = 3 * static_cast<std::size_t>(size - 1);  // brackets and plus
  for (std::int32_t rank = 0; rank < size; ++rank) {
    const std::string part = element(rank, i);
    length += part.size();
    ASSERT_NE(sum.find(part), std::string::npos) << sum << " lacks " << part;
  }
  ASSERT_EQ(sum.size(), length) << sum;
}

template <class Make>
Simulation simulate(std::int32_t size, std::int64_t in, std::int64_t out, Make make) {
  std::vector<Player> players;
  for (std::int32_t rank = 0; rank < size; ++rank)
    players.push_back(
        {make(Position{Rank{rank}, size}), elements_of(rank, in), elements_of(rank, out)});
  return Simulation(std::move(players));
}

constexpr Algorithm kAll[] = {Algorithm::kRing, Algorithm::kTree, Algorithm::kHalvingDoubling,
                              Algorithm::kDirect};

std::int64_t rounds(std::int32_t size) {
  return std::bit_width(static_cast<std::uint32_t>(size - 1));
}

TEST(Schedule, AllReduceSumsEverybodyOnceAndAlikeEverywhere) {
  for (const Algorithm algorithm : kAll)
    for (const std::int32_t size : kSizes)
      for (const std::int64_t count : kCounts) {
        auto play = simulate(
            size, 0, count, [&](Position me) { return all_reduce_schedule(algorithm, me, count); });
        ASSERT_TRUE(play.run()) << size << " ranks";
        for (std::int64_t i = 0; i < count; ++i) {
          const auto at = static_cast<std::size_t>(i);
          expect_sum_of_all(play[0].output[at], size, i);
          for (std::int32_t rank = 1; rank < size; ++rank)
            ASSERT_EQ(play[static_cast<std::size_t>(rank)].output[at], play[0].output[at]);
        }
      }
}

using Cost = std::pair<std::int64_t, std::int64_t>;  // messages, elements

TEST(Schedule, AllReduceCostsWhatItsFormulaSays) {
  for (const std::int32_t size : kSizes) {
    const std::int64_t count = 64 * size;  // divides evenly
    const auto cost = [&](Algorithm algorithm) {
      auto play = simulate(size, 0, count,
                           [&](Position me) { return all_reduce_schedule(algorithm, me, count); });
      EXPECT_TRUE(play.run());
      Cost most{0, 0};
      for (std::int32_t rank = 0; rank < size; ++rank) {
        const Player& player = play[static_cast<std::size_t>(rank)];
        most.first = std::max(most.first, player.messages);
        most.second = std::max(most.second, player.elements);
      }
      return most;
    };
    const std::int64_t optimal = 2 * (size - 1) * count / size;
    EXPECT_EQ(cost(Algorithm::kRing), Cost(2 * (size - 1), optimal));
    EXPECT_EQ(cost(Algorithm::kDirect), Cost(size - 1, (size - 1) * count));
    const auto doubling = cost(Algorithm::kHalvingDoubling);
    EXPECT_EQ(doubling.second, optimal);
    EXPECT_LE(doubling.first, 4 * rounds(size));  // a round wraps at most once
    EXPECT_LE(cost(Algorithm::kTree).second, 2 * rounds(size) * count);
  }
}

TEST(Schedule, OrderedAllReduceFollowsTheTree) {
  for (const std::int32_t leaves : {5, 13, 16})  // 5: some ranks have none
    for (const std::int32_t size : kSizes)
      for (const std::int64_t count : kCounts) {
        const SumTree tree(leaves, size);
        std::vector<Player> players;
        Elements expected(static_cast<std::size_t>(tree.part_count()));
        for (std::int32_t rank = 0; rank < size; ++rank) {
          const std::int64_t rows = tree.rows(Rank{rank});
          players.push_back({ordered_all_reduce_schedule(tree, Rank{rank}, count),
                             {},
                             elements_of(rank, rows * count)});
        }
        Simulation play(std::move(players));
        ASSERT_TRUE(play.run());
        for (std::int64_t i = 0; i < count; ++i) {
          for (std::int32_t rank = 0, part = 0; rank < size; ++rank)
            for (std::size_t row = 0; row < tree.parts(Rank{rank}).size(); ++row)
              expected[static_cast<std::size_t>(part++)] =
                  element(rank, static_cast<std::int64_t>(row) * count + i);
          for (const auto& [left, right] : tree.sums()) {
            auto& sum = expected[static_cast<std::size_t>(left)];
            sum = "(" + sum + "+" + expected[static_cast<std::size_t>(right)] + ")";
          }
          for (std::int32_t rank = 0; rank < size; ++rank)
            ASSERT_EQ(play[static_cast<std::size_t>(rank)].output[static_cast<std::size_t>(i)],
                      expected[static_cast<std::size_t>(tree.total_part())]);
        }
      }
}

TEST(Schedule, ReduceScatterGivesEachRankItsBlock) {
  for (const Algorithm algorithm :
       {Algorithm::kRing, Algorithm::kHalvingDoubling, Algorithm::kDirect})
    for (const std::int32_t size : kSizes)
      for (const std::int64_t count : kCounts) {
        auto play = simulate(size, size * count, count, [&](Position me) {
          return reduce_scatter_schedule(algorithm, me, count);
        });
        ASSERT_TRUE(play.run());
        for (std::int32_t rank = 0; rank < size; ++rank) {
          const Player& player = play[static_cast<std::size_t>(rank)];
          EXPECT_EQ(player.elements, (size - 1) * count);
          EXPECT_EQ(player.input, elements_of(rank, size * count));  // the input is only read
          for (std::int64_t i = 0; i < count; ++i)
            expect_sum_of_all(player.output[static_cast<std::size_t>(i)], size, rank * count + i);
        }
      }
}

TEST(Schedule, AllGatherBringsEveryBlockEverywhere) {
  for (const Algorithm algorithm :
       {Algorithm::kRing, Algorithm::kHalvingDoubling, Algorithm::kDirect})
    for (const std::int32_t size : kSizes)
      for (const std::int64_t count : kCounts) {
        auto play = simulate(size, count, size * count, [&](Position me) {
          return all_gather_schedule(algorithm, me, count);
        });
        ASSERT_TRUE(play.run());
        for (std::int32_t rank = 0; rank < size; ++rank) {
          EXPECT_EQ(play[static_cast<std::size_t>(rank)].elements, (size - 1) * count);
          for (std::int64_t i = 0; i < size * count; ++i)
            ASSERT_EQ(play[static_cast<std::size_t>(rank)].output[static_cast<std::size_t>(i)],
                      element(static_cast<std::int32_t>(i / count), i % count));
        }
      }
}

TEST(Schedule, BroadcastReachesEverybodyFromEveryRoot) {
  for (const Algorithm algorithm : {Algorithm::kTree, Algorithm::kRing, Algorithm::kDirect})
    for (const std::int32_t size : kSizes)
      for (std::int32_t root = 0; root < size; ++root) {
        auto play = simulate(size, 0, 5, [&](Position me) {
          return broadcast_schedule(algorithm, me, Rank{root}, 5);
        });
        ASSERT_TRUE(play.run());
        for (std::int32_t rank = 0; rank < size; ++rank)
          ASSERT_EQ(play[static_cast<std::size_t>(rank)].output, elements_of(root, 5));
      }
}

TEST(Schedule, AllToAllTransposes) {
  for (const std::int32_t size : kSizes) {
    auto play =
        simulate(size, size * 3, size * 3, [&](Position me) { return all_to_all_schedule(me, 3); });
    ASSERT_TRUE(play.run());
    for (std::int32_t rank = 0; rank < size; ++rank)
      for (std::int64_t i = 0; i < size * 3; ++i)
        ASSERT_EQ(play[static_cast<std::size_t>(rank)].output[static_cast<std::size_t>(i)],
                  element(static_cast<std::int32_t>(i / 3), rank * 3 + i % 3));
  }
}

TEST(Schedule, BarrierTakesLogarithmicallyManyEmptyMessages) {
  for (const std::int32_t size : kSizes) {
    auto play = simulate(size, 0, 0, [](Position me) { return barrier_schedule(me); });
    ASSERT_TRUE(play.run());
    EXPECT_EQ(play[0].messages, size == 1 ? 0 : rounds(size));
    EXPECT_EQ(play[0].elements, 0);
  }
}

TEST(ChooseAlgorithm, GrantsWishesItCanAndDecidesTheRest) {
  const TensorView none;
  const auto choose = [](const Op& op, Algorithm wish, std::int64_t bytes, std::int32_t size) {
    return choose_algorithm(op, wish, bytes, size, Wire::kTcp);
  };
  EXPECT_EQ(choose(AllReduce{none}, Algorithm::kTree, 10, 4), Algorithm::kTree);
  EXPECT_EQ(choose(AllGather{none, none}, Algorithm::kTree, 10, 4), Algorithm::kDirect);
  EXPECT_EQ(choose(Broadcast{none}, Algorithm::kHalvingDoubling, 10, 4), Algorithm::kTree);
  EXPECT_EQ(choose(AllReduce{none}, Algorithm::kAuto, 1 << 10, 4), Algorithm::kDirect);
  EXPECT_EQ(choose(AllReduce{none}, Algorithm::kAuto, 1 << 20, 4), Algorithm::kHalvingDoubling);
  EXPECT_EQ(choose(AllReduce{none}, Algorithm::kAuto, 1 << 26, 4), Algorithm::kRing);
  EXPECT_EQ(choose(AllReduce{none}, Algorithm::kAuto, 1 << 26, 2), Algorithm::kHalvingDoubling);
}

}  // namespace
}  // namespace muster::comm
