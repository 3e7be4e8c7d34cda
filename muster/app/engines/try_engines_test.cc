#include "muster/app/engines/try_engines.h"

#include <gtest/gtest.h>

namespace muster::app {
namespace {

TEST(TryEngines, TheySumHere) {
  const std::vector<EngineTrial> trials = try_engines();
  ASSERT_EQ(trials.size(), 3u);
  for (const EngineTrial& trial : trials)
    EXPECT_TRUE(trial.outcome) << trial.name << ": " << trial.outcome.error().message;
  EXPECT_EQ(trials[0].name, "loopback");
  EXPECT_EQ(trials[1].name, "shared memory");
  EXPECT_EQ(trials[2].name, "TCP with TLS");
}

}  // namespace
}  // namespace muster::app
