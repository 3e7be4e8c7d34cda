// A worker that waits for its data is named for that, while it trains.
#include <gtest/gtest.h>

#include "muster/train/testing/town.h"

namespace muster::train {
namespace {

TEST(SlowData, IsToldOfTheWorkerThatWaitsForIt) {
  const std::string expected = undisturbed();
  for (const std::int32_t slow : {0, 2}) {
    Town town(3);
    const SlowData data{slow, std::chrono::milliseconds(8)};
    const auto ends = train(town, 3, {.slow_data = data});
    for (const auto& [worker, end] : ends) expect_well(end, expected);
    const std::string& told = ends.at(0).told;
    const std::string name = "worker " + std::to_string(slow) + " (a thread) waits ";
    EXPECT_NE(told.find(name), std::string::npos) << told;
    for (const std::int32_t other : {0, 1, 2}) {
      const std::string wrong = "worker " + std::to_string(other) + " (a thread) waits ";
      EXPECT_TRUE(other == slow || told.find(wrong) == std::string::npos) << told;
    }
  }
}

}  // namespace
}  // namespace muster::train
