#include "muster/base/round_up.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace muster {
namespace {

TEST(RoundUp, CountsThePieceThatIsNotFull) {
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(4, 4), 1);
  EXPECT_EQ(ceil_div(5, 4), 2);
  EXPECT_EQ(ceil_div(std::int64_t{1} << 40, 3), 366503875926);
}

TEST(RoundUp, LeavesAMultipleAsItIs) {
  EXPECT_EQ(round_up(std::size_t{0}, 64), 0u);
  EXPECT_EQ(round_up(std::size_t{64}, 64), 64u);
  EXPECT_EQ(round_up(std::size_t{65}, 64), 128u);
  EXPECT_EQ(round_up(7, 1), 7);
}

}  // namespace
}  // namespace muster
