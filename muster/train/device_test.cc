// A training whose model lies in memory that the host cannot touch ends with the same bits as one
// on the host, whatever happens to it.
#include <gtest/gtest.h>

#include "muster/train/testing/town.h"

namespace muster::train {
namespace {

Faults on_device(Faults faults = {}) {
  faults.on_foreign_device = true;
  return faults;
}

TEST(ForeignDevice, TrainsToTheSameBits) {
  expect_well(alone(on_device()), undisturbed());
  for (const std::int32_t size : {2, 3}) {
    Town town(size);
    for (const auto& [worker, end] : train(town, size, on_device()))
      expect_well(end, undisturbed());
  }
}

TEST(ForeignDevice, StandsADeath) {
  Town town(3);
  auto ends = train(town, 3, on_device({.death = Death{1, 8}}));
  EXPECT_EQ(ends.at(1).error, "dead");
  ends.erase(1);
  for (const auto& [worker, end] : ends) expect_well(end, undisturbed());
}

TEST(ForeignDevice, IsCopiedToWhoeverLacksAStep) {
  Town town(3);
  for (const auto& [worker, end] : train(town, 3, on_device({.breaks = Break{2, 9}})))
    expect_well(end, undisturbed());
}

TEST(ForeignDevice, GivesItsStateToNewcomers) {
  Town town(2, 9);
  for (const auto& [worker, end] : train(town, 2, on_device({.join = Join{6, {2, 3}}})))
    expect_well(end, undisturbed());
}

TEST(ForeignDevice, IsCheckedForSilentCorruption) {
  Town town(3);
  auto ends = train(town, 3, on_device({.flips = {{2, 8, 0}}}));
  EXPECT_EQ(town.quarantined, std::multiset<std::int32_t>{2});
  ends.erase(2);
  for (const auto& [worker, end] : ends) expect_well(end, undisturbed());
}

}  // namespace
}  // namespace muster::train
