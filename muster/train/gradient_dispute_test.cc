#include "muster/train/gradient_dispute.h"

#include <gtest/gtest.h>

#include <utility>

namespace muster::train {
namespace {

using Verdict = GradientDispute::Verdict;
using Ranks = std::vector<Rank>;

constexpr Step kStep{7};

// Ranks that decide alike, each with a dispute of its own. `parts`: by rank; none: all have the
// same.
class Ring {
 public:
  explicit Ring(std::size_t size, std::vector<std::int32_t> parts = {})
      : disputes_(size), parts_(std::move(parts)) {
    parts_.resize(size);
  }

  GradientDispute::Ruling attempt(const std::vector<std::uint64_t>& sums, Step step = kStep) {
    std::vector<ReplicaReport> reports;
    for (std::size_t rank = 0; rank < sums.size(); ++rank)
      reports.push_back(disputes_[rank].report(step, sums[rank], parts_[rank]));
    std::vector<GradientDispute::Ruling> rulings;
    for (std::size_t rank = 0; rank < sums.size(); ++rank)
      rulings.push_back(disputes_[rank].judge(step, sums[rank], reports));
    for (std::size_t rank = 0; rank < sums.size(); ++rank) {
      EXPECT_EQ(rulings[rank].verdict, rulings[0].verdict);
      EXPECT_EQ(rulings[rank].wrong, rulings[0].wrong);
      again_ = disputes_[rank].takes_again();
    }
    return rulings[0];
  }
  bool again() const { return again_; }

 private:
  std::vector<GradientDispute> disputes_;
  std::vector<std::int32_t> parts_;
  bool again_ = false;
};

TEST(GradientDispute, AMajorityIsRight) {
  Ring ring(3);
  EXPECT_EQ(ring.attempt({5, 5, 5}).verdict, Verdict::kSame);
  EXPECT_FALSE(ring.again());
  const auto ruling = ring.attempt({5, 6, 5});
  EXPECT_EQ(ruling.verdict, Verdict::kGoes);
  EXPECT_EQ(ruling.wrong, Ranks{Rank{1}});
  EXPECT_TRUE(ring.again());
}

TEST(GradientDispute, OfTwoTheSecondAttemptTells) {
  for (const std::size_t wrong : {0U, 1U}) {
    Ring ring(2);
    std::vector<std::uint64_t> sums{5, 5};
    sums[wrong] = 6;
    EXPECT_EQ(ring.attempt(sums).verdict, Verdict::kAgain);
    EXPECT_TRUE(ring.again());
    const auto ruling = ring.attempt({5, 5});
    EXPECT_EQ(ruling.verdict, Verdict::kNamed);
    EXPECT_EQ(ruling.wrong, Ranks{Rank(wrong)});
    EXPECT_FALSE(ring.again());
    EXPECT_EQ(ring.attempt({5, 5}, next(kStep)).verdict, Verdict::kSame);
  }
}

TEST(GradientDispute, WhereAllChangedNobodyIsToBlame) {
  Ring ring(2);
  EXPECT_EQ(ring.attempt({5, 6}).verdict, Verdict::kAgain);
  EXPECT_EQ(ring.attempt({8, 8}).verdict, Verdict::kSame);
}

TEST(GradientDispute, OnlyWhoHasTheSamePartIsCompared) {
  const std::vector<std::int32_t> three_of_each{0, 1, 0, 1, 0, 1};
  Ring ring(6, three_of_each);
  EXPECT_EQ(ring.attempt({5, 7, 5, 7, 5, 7}).verdict, Verdict::kSame);
  const auto ruling = ring.attempt({5, 7, 5, 8, 5, 7});
  EXPECT_EQ(ruling.verdict, Verdict::kGoes);
  EXPECT_EQ(ruling.wrong, Ranks{Rank{3}});
}

// Others of the same part, and those of other parts, came to what they had before.
TEST(GradientDispute, OfTwoWithTheSamePartTheSecondAttemptTells) {
  for (std::size_t wrong = 0; wrong < 4; ++wrong) {
    Ring ring(4, {0, 1, 0, 1});
    std::vector<std::uint64_t> sums{5, 7, 5, 7};
    sums[wrong] = 6;
    EXPECT_EQ(ring.attempt(sums).verdict, Verdict::kAgain);
    const auto ruling = ring.attempt({5, 7, 5, 7});
    EXPECT_EQ(ruling.verdict, Verdict::kNamed);
    EXPECT_EQ(ruling.wrong, Ranks{Rank(wrong)});
  }
  Ring ring(4, {0, 1, 0, 1});
  EXPECT_EQ(ring.attempt({5, 7, 6, 7}).verdict, Verdict::kAgain);
  EXPECT_EQ(ring.attempt({8, 7, 8, 7}).verdict, Verdict::kSame) << "both came to something else";
}

TEST(GradientDispute, OfAnotherStepSaysNothing) {
  Ring ring(2);
  EXPECT_EQ(ring.attempt({5, 6}).verdict, Verdict::kAgain);
  EXPECT_EQ(ring.attempt({9, 9}, next(kStep)).verdict, Verdict::kSame);
}

TEST(GradientDispute, EndsWhereItDoesNotEnd) {
  Ring ring(2);
  for (int attempt = 1; attempt < 4; ++attempt)
    EXPECT_EQ(ring.attempt({5, 6}).verdict, Verdict::kAgain) << attempt;
  EXPECT_EQ(ring.attempt({5, 6}).verdict, Verdict::kHopeless);
  EXPECT_FALSE(ring.again());
}

}  // namespace
}  // namespace muster::train
