#include "muster/comm/sum_tree.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "muster/base/check.h"

namespace muster::comm {
namespace {

// The tree by its definition, as text: "((0 1) 2)".
std::string naive(std::int32_t begin, std::int32_t end) {
  if (end - begin == 1) return std::to_string(begin);
  const auto half = static_cast<std::int32_t>(std::bit_floor(std::uint32_t(end - begin) - 1));
  return "(" + naive(begin, begin + half) + " " + naive(begin + half, end) + ")";
}

std::vector<std::string> texts_of_parts(const SumTree& tree) {
  std::vector<std::string> texts;
  for (std::int32_t rank = 0; rank < tree.size(); ++rank) {
    EXPECT_EQ(tree.first_part(Rank{rank}), static_cast<std::int32_t>(texts.size()));
    for (const LeafRange& part : tree.parts(Rank{rank}))
      texts.push_back(naive(part.begin, part.end));
  }
  return texts;
}

// A text says which leaves were added to which: equal texts, equal bits.
std::string text_of_sum(const SumTree& tree) {
  std::vector<std::string> sum = texts_of_parts(tree);
  EXPECT_EQ(tree.part_count(), static_cast<std::int32_t>(sum.size()));
  for (const auto& [left, right] : tree.sums()) {
    auto& into = sum[static_cast<std::size_t>(left)];
    into = "(" + into + " " + sum[static_cast<std::size_t>(right)] + ")";
  }
  return sum[static_cast<std::size_t>(tree.total_part())];
}

TEST(SumTree, AssociationIsTheSameForEveryNumberOfRanks) {
  for (std::int32_t leaves = 1; leaves <= 64; ++leaves) {
    for (std::int32_t size = 1; size <= leaves; ++size) {
      ASSERT_EQ(text_of_sum(SumTree(leaves, size)), naive(0, leaves))
          << leaves << " leaves, " << size << " ranks";
    }
  }
}

// Every set of deaths of up to 6 ranks, and after each every second set: the tree stays the same
// and who is there keeps what he had.
std::vector<Rank> ranks_after(std::uint32_t dead, std::int32_t size) {
  std::vector<Rank> now;
  std::int32_t next = 0;
  for (std::int32_t rank = 0; rank < size; ++rank)
    now.push_back((dead >> rank) & 1U ? kNoRank : Rank{next++});
  return now;
}

void expect_inherited(const LeafOwners& before, const std::vector<Rank>& now,
                      const LeafOwners& after, std::int32_t survivors) {
  for (std::size_t leaf = 0; leaf < before.size(); ++leaf) {
    const Rank kept = now[static_cast<std::size_t>(to_int(before[leaf]))];
    if (kept != kNoRank) {
      EXPECT_EQ(after[leaf], kept);
    }
  }
  EXPECT_EQ(text_of_sum(SumTree(after, survivors)),
            naive(0, static_cast<std::int32_t>(before.size())));
}

TEST(SumTree, StaysTheSameWhoeverDies) {
  for (const std::int32_t leaves : {6, 8, 13}) {
    for (std::int32_t size = 2; size <= 6; ++size) {
      const LeafOwners first = even_owners(leaves, size);
      for (std::uint32_t dead = 1; dead + 1 < 1U << size; ++dead) {
        const auto now = ranks_after(dead, size);
        const LeafOwners second = inherit_leaves(first, now);
        const std::int32_t left = size - std::popcount(dead);
        expect_inherited(first, now, second, left);
        for (std::uint32_t then = 1; then + 1 < 1U << left; ++then) {
          const auto later = ranks_after(then, left);
          expect_inherited(second, later, inherit_leaves(second, later),
                           left - std::popcount(then));
        }
      }
    }
  }
}

TEST(SumTree, PartsCoverTheRangeAndAreFew) {
  for (std::int32_t leaves = 1; leaves <= 64; ++leaves) {
    for (std::int32_t size = 1; size <= leaves; ++size) {
      const SumTree tree(leaves, size);
      std::int32_t next = 0;
      for (std::int32_t rank = 0; rank < size; ++rank) {
        const auto& parts = tree.parts(Rank{rank});
        EXPECT_LE(parts.size(), 2U * std::bit_width(static_cast<std::uint32_t>(leaves)));
        for (const LeafRange& part : parts) {
          EXPECT_EQ(part.begin, next);
          next = part.end;
        }
        EXPECT_EQ(next, even_share(leaves, size, rank).end);
      }
      EXPECT_EQ(next, leaves);
    }
  }
}

TEST(SumTree, OneRankHoldsTheWholeTree) {
  EXPECT_EQ(SumTree(13, 1).parts(Rank{0}), (std::vector<LeafRange>{{0, 13}}));
  EXPECT_TRUE(SumTree(13, 1).sums().empty());
}

// Every way to deal 5 leaves to 3 ranks, some of whom get none.
TEST(SumTree, StaysTheSameHoweverLeavesAreDealt) {
  for (std::int32_t way = 0; way < 3 * 3 * 3 * 3 * 3; ++way) {
    LeafOwners owners;
    for (std::int32_t rest = way; owners.size() < 5; rest /= 3) owners.push_back(Rank{rest % 3});
    ASSERT_EQ(text_of_sum(SumTree(owners, 3)), naive(0, 5)) << "way " << way;
  }
}

TEST(SumTree, ARankWithoutLeavesHasOneRowForTheTotal) {
  const SumTree tree(3, 4);
  EXPECT_TRUE(tree.parts(Rank{3}).empty());
  EXPECT_EQ(tree.rows(Rank{3}), 1);
  EXPECT_EQ(text_of_sum(tree), naive(0, 3));
}

TEST(SumTree, RefusesOwnersThatAreNotThere) {
  EXPECT_THROW(SumTree({Rank{0}, Rank{2}}, 2), LogicFault);
  EXPECT_THROW(SumTree({Rank{0}, kNoRank}, 2), LogicFault);
}

TEST(InheritLeaves, WhoHasFewestGetsMore) {
  const LeafOwners before = owners_by_count({3, 3, 2, 0});
  EXPECT_EQ(inherit_leaves(before, {Rank{0}, kNoRank, Rank{1}, Rank{2}}),
            (LeafOwners{Rank{0}, Rank{0}, Rank{0}, Rank{1}, Rank{2}, Rank{2}, Rank{1}, Rank{1}}));
}

TEST(LeafOwners, InTurnsAsLongAsARankWantsMore) {
  const auto ranks = [](const std::vector<std::int32_t>& counts) {
    std::vector<std::int32_t> all;
    for (const Rank rank : owners_in_turns(counts)) all.push_back(to_int(rank));
    return all;
  };
  EXPECT_EQ(ranks({3, 3, 2}), (std::vector{0, 1, 2, 0, 1, 2, 0, 1}));
  EXPECT_EQ(ranks({1, 0, 4}), (std::vector{0, 2, 2, 2, 2}));
  EXPECT_TRUE(ranks({0, 0}).empty());
}

TEST(EvenShare, DiffersByAtMostOneLargerFirst) {
  EXPECT_EQ(even_share(10, 4, 0), (LeafRange{0, 3}));
  EXPECT_EQ(even_share(10, 4, 1), (LeafRange{3, 6}));
  EXPECT_EQ(even_share(10, 4, 2), (LeafRange{6, 8}));
  EXPECT_EQ(even_share(10, 4, 3), (LeafRange{8, 10}));
  EXPECT_EQ(even_share(2, 4, 3), (LeafRange{2, 2}));
}

}  // namespace
}  // namespace muster::comm
