#include "muster/base/backoff.h"

#include <gtest/gtest.h>

#include <limits>

namespace muster {
namespace {

using std::chrono::milliseconds;

class FixedEntropy final : public Entropy {
 public:
  explicit FixedEntropy(std::uint64_t value) : value_(value) {}
  std::uint64_t next() override { return value_; }

 private:
  const std::uint64_t value_;
};

TEST(Backoff, DoublesUpToTheLongest) {
  FixedEntropy entropy(0);
  Backoff backoff(milliseconds(10), milliseconds(35), entropy);
  EXPECT_EQ(backoff.next(), milliseconds(10));
  EXPECT_EQ(backoff.next(), milliseconds(20));
  EXPECT_EQ(backoff.next(), milliseconds(35));
  EXPECT_EQ(backoff.next(), milliseconds(35));
}

TEST(Backoff, IsByChanceUpToHalfShorter) {
  FixedEntropy most(std::numeric_limits<std::uint64_t>::max());
  FixedEntropy middle(std::uint64_t{1} << 63);
  EXPECT_EQ(Backoff(milliseconds(1000), milliseconds(1000), middle).next(), milliseconds(750));
  const Duration shortest = Backoff(milliseconds(1000), milliseconds(1000), most).next();
  EXPECT_GE(shortest, milliseconds(500));
  EXPECT_LT(shortest, milliseconds(501));
}

// A thousand that failed at one moment are not all back at one.
TEST(Backoff, SpreadsThoseWhoBeganTogether) {
  int early = 0;
  for (int i = 0; i < 1000; ++i)
    early += Backoff(milliseconds(1000), milliseconds(1000)).next() < milliseconds(750) ? 1 : 0;
  EXPECT_GT(early, 300);
  EXPECT_LT(early, 700);
}

}  // namespace
}  // namespace muster
