#include "muster/train/replicas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace muster::train {
namespace {

using Ranks = std::vector<Rank>;

std::vector<ReplicaReport> reports_of(const std::vector<std::uint64_t>& hashes) {
  std::vector<ReplicaReport> reports;
  for (const std::uint64_t hash : hashes) reports.push_back({.sum = {.shared = hash}});
  return reports;
}

// Ranks that have one of so many parts, in turns.
std::vector<ReplicaReport> reports_of_parts(std::int32_t parts,
                                            const std::vector<std::uint64_t>& own,
                                            const std::vector<std::uint64_t>& shared) {
  std::vector<ReplicaReport> reports;
  for (std::size_t rank = 0; rank < own.size(); ++rank)
    reports.push_back({.sum = {.shared = shared[rank], .own = own[rank]},
                       .part = static_cast<std::int32_t>(rank) % parts});
  return reports;
}

TEST(OddOnesOut, AreThoseOutsideTheMajority) {
  EXPECT_EQ(odd_ones_out(reports_of({7})), Ranks{});
  EXPECT_EQ(odd_ones_out(reports_of({7, 7})), Ranks{});
  EXPECT_EQ(odd_ones_out(reports_of({7, 8, 7})), Ranks{Rank{1}});
  EXPECT_EQ(odd_ones_out(reports_of({9, 7, 7, 7, 8})), (Ranks{Rank{0}, Rank{4}}));
  EXPECT_EQ(odd_ones_out(reports_of({7, 8})), std::nullopt);
  EXPECT_EQ(odd_ones_out(reports_of({7, 8, 9})), std::nullopt);
  EXPECT_EQ(odd_ones_out(reports_of({7, 8, 7, 8})), std::nullopt);
}

TEST(OddOnesOut, WhoKnowsItIsGuiltyIsWhateverTheMajoritySays) {
  auto reports = reports_of({7, 8, 8});
  reports[2].guilty = true;
  EXPECT_EQ(odd_ones_out(reports), Ranks{Rank{2}});
  reports = reports_of({7, 8});
  reports[0].guilty = true;
  EXPECT_EQ(odd_ones_out(reports), Ranks{Rank{0}});
}

// Every way in which up to 6 ranks hold up to 3 different states.
TEST(OddOnesOut, NamesNobodyWithoutAMajority) {
  for (std::size_t size = 1; size <= 6; ++size) {
    for (int way = 0; way < 729; ++way) {
      std::vector<std::uint64_t> hashes;
      for (int rest = way; hashes.size() < size; rest /= 3)
        hashes.push_back(static_cast<std::uint64_t>(rest % 3));
      std::map<std::uint64_t, std::size_t> counts;
      for (const std::uint64_t hash : hashes) ++counts[hash];
      const auto odd = odd_ones_out(reports_of(hashes));
      std::size_t most = 0;
      for (const auto& [hash, count] : counts) most = std::max(most, count);
      ASSERT_EQ(odd.has_value(), 2 * most > size);
      if (odd) {
        ASSERT_EQ(odd->size(), size - most);
      }
    }
  }
}

TEST(OddOnesOut, AreFoundAmongThoseWithTheSamePart) {
  const std::vector<std::uint64_t> same(6);
  EXPECT_EQ(odd_ones_out(reports_of_parts(2, {1, 2, 1, 2, 1, 2}, same)), Ranks{});
  EXPECT_EQ(odd_ones_out(reports_of_parts(2, {1, 2, 1, 2, 1, 3}, same)), Ranks{Rank{5}});
  EXPECT_EQ(odd_ones_out(reports_of_parts(2, {1, 2, 4, 2, 1, 3}, same)), (Ranks{Rank{2}, Rank{5}}));
  EXPECT_EQ(odd_ones_out(reports_of_parts(3, {1, 2, 3, 1, 2, 4}, same)), std::nullopt);
  EXPECT_EQ(odd_ones_out(reports_of_parts(6, {1, 2, 3, 4, 5, 6}, same)), Ranks{});
}

// Whoever has a wrong part gives the others of its replica wrong weights: ranks 0 and 1 hold these.
TEST(OddOnesOut, OfAPartAreNotThoseWhoGotWrongWeightsFromThem) {
  EXPECT_EQ(odd_ones_out(reports_of_parts(2, {1, 3, 1, 2, 1, 2}, {8, 8, 7, 7, 7, 7})),
            Ranks{Rank{1}});
  EXPECT_EQ(odd_ones_out(reports_of_parts(2, {1, 3, 1, 2}, {7, 8, 7, 7})), Ranks{Rank{1}})
      << "of two, what all hold tells";
}

TEST(CopiedWrong, AreThoseWhoDifferFromWhomTheyHaveItFrom) {
  const Ranks sources{Rank{0}, Rank{1}, Rank{0}, Rank{3}};
  const std::vector<std::uint64_t> same(4);
  EXPECT_EQ(copied_wrong(reports_of_parts(2, {1, 2, 5, 2}, same), sources), Ranks{Rank{2}});
  EXPECT_EQ(copied_wrong(reports_of_parts(2, {1, 2, 1, 5}, same), sources), Ranks{})
      << "those who had theirs before differ";
}

}  // namespace
}  // namespace muster::train
