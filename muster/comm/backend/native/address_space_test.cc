#include "muster/comm/backend/native/address_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace muster::comm {
namespace {

TEST(AddressSpace, TakesTheFirstPartThatIsLargeEnough) {
  AddressSpace space(64, 1064);
  EXPECT_EQ(space.take(100, 1), 64U);
  EXPECT_EQ(space.take(100, 256), 256U);
  EXPECT_EQ(space.take(92, 1), 164U);  // before that one
  EXPECT_EQ(space.take(1000, 1), std::nullopt);
  EXPECT_EQ(space.taken(), 292U);
}

TEST(AddressSpace, IsWholeAgainOnceAllIsGivenBack) {
  struct Part {
    std::size_t at, bytes;
  };
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    AddressSpace space(4096, 4096 + 100'000);
    std::vector<Part> taken;
    for (int i = 0; i < 200; ++i) {
      if (random() % 3 == 0 && !taken.empty()) {
        std::swap(taken[random() % taken.size()], taken.back());
        space.give_back(taken.back().at, taken.back().bytes);
        taken.pop_back();
      } else if (const std::size_t bytes = 1 + random() % 3000;
                 const auto at = space.take(bytes, std::size_t{1} << random() % 12)) {
        for (const Part& other : taken)
          EXPECT_TRUE(*at + bytes <= other.at || other.at + other.bytes <= *at);
        taken.push_back({*at, bytes});
      }
    }
    std::ranges::shuffle(taken, random);
    for (const Part& part : taken) space.give_back(part.at, part.bytes);
    EXPECT_EQ(space.taken(), 0U);
    EXPECT_EQ(space.take(100'000, 4096), 4096U);
  }
}

}  // namespace
}  // namespace muster::comm
