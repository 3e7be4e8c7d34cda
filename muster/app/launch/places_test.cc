#include "muster/app/launch/places.h"

#include <gtest/gtest.h>

namespace muster::app {
namespace {

std::string note(const job::JobSpec& job, const LaunchOptions& options) {
  const auto places = find_places(job, options, create_null_logger());
  EXPECT_TRUE(places) << places.error().message;
  return places ? places->note : "";
}

TEST(Places, OfThisHostAloneNeedNoWord) {
  job::JobSpec job;
  job.workers.count = 2;
  EXPECT_EQ(note(job, {}), "");
}

TEST(Places, NameTheLauncherThatHasStartedThisProcessAlone) {
  job::JobSpec job;
  job.workers.count = 1;
  EXPECT_EQ(note(job, {.started_by = "torchrun"}), "started by torchrun: 1 worker here");
  job.workers.count = 3;
  EXPECT_EQ(note(job, {.started_by = "Open MPI"}), "started by Open MPI: 3 workers here");
}

}  // namespace
}  // namespace muster::app
