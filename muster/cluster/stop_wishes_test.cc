#include "muster/cluster/stop_wishes.h"

#include <gtest/gtest.h>

#include <csignal>

namespace muster::cluster {
namespace {

using Wish = StopWishes::Wish;
using std::chrono::milliseconds;

constexpr TimePoint kStart{std::chrono::seconds(100)};

TEST(StopWishes, TheSameSignalAgainAtOnceIsAnEcho) {
  StopWishes wishes;
  EXPECT_EQ(wishes.hear(SIGTERM, kStart), Wish::kStop);
  EXPECT_EQ(wishes.hear(SIGTERM, kStart), Wish::kEcho);
  EXPECT_EQ(wishes.hear(SIGTERM, kStart + milliseconds(100)), Wish::kEcho);
  // Echoes of echoes do not add up.
  EXPECT_EQ(wishes.hear(SIGTERM, kStart + milliseconds(200)), Wish::kAtOnce);
  EXPECT_EQ(wishes.hear(SIGTERM, kStart + milliseconds(201)), Wish::kEcho);
}

TEST(StopWishes, AnotherSignalIsAnotherWish) {
  StopWishes wishes;
  EXPECT_EQ(wishes.hear(SIGTERM, kStart), Wish::kStop);
  EXPECT_EQ(wishes.hear(SIGINT, kStart), Wish::kAtOnce);
}

}  // namespace
}  // namespace muster::cluster
