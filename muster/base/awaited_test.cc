#include "muster/base/awaited.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "muster/testing/fake_clock.h"

namespace muster {
namespace {

Deadline in_an_hour(const Clock& clock) { return Deadline::after(clock, std::chrono::hours(1)); }

TEST(Awaited, GivesTheFirstAnswer) {
  testing::FakeClock clock;
  Awaited<std::string> answer;
  std::thread other([giver = answer.giver()] {
    giver->give("first");
    giver->give("second");
  });
  EXPECT_EQ(answer.wait(clock, in_an_hour(clock)), "first");
  other.join();
}

TEST(Awaited, EndsAtTheDeadlineOfItsClock) {
  testing::FakeClock clock;
  Awaited<int> answer;
  const auto giver = answer.giver();
  const Deadline deadline = in_an_hour(clock);
  clock.advance(std::chrono::hours(1));
  EXPECT_FALSE(answer.wait(clock, deadline));
}

TEST(Awaited, EndsWhenNobodyIsLeftToAnswer) {
  testing::FakeClock clock;
  Awaited<int> answer;
  std::thread other([giver = answer.giver()] {});
  EXPECT_FALSE(answer.wait(clock, in_an_hour(clock)));
  other.join();
}

TEST(Awaited, AnAnswerMayComeWhenNobodyWaitsAnyMore) {
  std::shared_ptr<Awaited<int>::Giver> giver;
  {
    Awaited<int> answer;
    giver = answer.giver();
  }
  giver->give(1);
}

}  // namespace
}  // namespace muster
