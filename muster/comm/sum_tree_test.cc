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
TEST(SumTree, AssociationIsTheSameForEveryNumberOfRanks) {
  for (std::int32_t leaves = 1; leaves <= 64; ++leaves) {
    for (std::int32_t size = 1; size <= leaves; ++size) {
      const SumTree tree(leaves, size);
      std::vector<std::string> sum = texts_of_parts(tree);
      ASSERT_EQ(tree.part_count(), static_cast<std::int32_t>(sum.size()));
      for (const auto& [left, right] : tree.sums()) {
        auto& into = sum[static_cast<std::size_t>(left)];
        into = "(" + into + " " + sum[static_cast<std::size_t>(right)] + ")";
      }
      ASSERT_EQ(sum[0], naive(0, leaves)) << leaves << " leaves, " << size << " ranks";
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
        EXPECT_EQ(next, tree.range(Rank{rank}).end);
      }
      EXPECT_EQ(next, leaves);
    }
  }
}

TEST(SumTree, OneRankHoldsTheWholeTree) {
  EXPECT_EQ(SumTree(13, 1).parts(Rank{0}), (std::vector<LeafRange>{{0, 13}}));
  EXPECT_TRUE(SumTree(13, 1).sums().empty());
}

TEST(SumTree, RefusesMoreRanksThanLeaves) { EXPECT_THROW(SumTree(3, 4), LogicFault); }

TEST(EvenShare, DiffersByAtMostOneLargerFirst) {
  EXPECT_EQ(even_share(10, 4, 0), (LeafRange{0, 3}));
  EXPECT_EQ(even_share(10, 4, 1), (LeafRange{3, 6}));
  EXPECT_EQ(even_share(10, 4, 2), (LeafRange{6, 8}));
  EXPECT_EQ(even_share(10, 4, 3), (LeafRange{8, 10}));
  EXPECT_EQ(even_share(2, 4, 3), (LeafRange{2, 2}));
}

}  // namespace
}  // namespace muster::comm
