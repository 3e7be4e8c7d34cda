#include "muster/cluster/launchers/agents/same_job.h"

#include <gtest/gtest.h>

namespace muster::cluster {
namespace {

Attend of_job(std::int32_t number, GivenJob job) {
  return {.number = number, .host = "node", .pid = 7, .version = "v", .job = std::move(job)};
}

TEST(SameJob, NothingDiffersWhereAllIsEqualButTheFile) {
  const Attend first = of_job(0, {"/a", {{"name", "a"}}, {}});
  EXPECT_EQ(what_differs(first, of_job(1, {"/b", {{"name", "a"}}, {}})), "");
}

TEST(SameJob, AFieldThatOneOfThemLacksIsAnother) {
  const GivenJob less{"/a", {{"name", "a"}}, {}};
  const GivenJob more{"/b", {{"name", "a"}, {"model.layers", "2"}}, {}};
  const std::string told = what_differs(of_job(0, less), of_job(1, more));
  EXPECT_NE(told.find("rank 1 on node (pid 7) has `model.layers: 2` by /b, rank 0 on node (pid 7) "
                      "has `no model.layers` by /a"),
            std::string::npos)
      << told;
  const std::string other_way = what_differs(of_job(0, more), of_job(1, less));
  EXPECT_NE(other_way.find("has `no model.layers` by /a"), std::string::npos) << other_way;
}

// Rank 0 tells of its own mistake, and what came through a pipe is compared with nothing.
TEST(SameJob, NothingIsComparedWithWhatRankZeroCannotSay) {
  for (const std::string mistake : {"", "unknown field"})
    EXPECT_EQ(what_differs(of_job(0, {"/a", {}, mistake}), of_job(1, {"/b", {}, "no such file"})),
              "");
  EXPECT_EQ(what_differs(of_job(0, {"/a", {{"name", "a"}}, {}}), of_job(1, {"/dev/stdin"})), "");
}

TEST(SameJob, TheVersionIsComparedFirst) {
  Attend other = of_job(1, {"/b", {{"name", "b"}}, {}});
  other.version = "";
  EXPECT_EQ(what_differs(of_job(0, {"/a", {{"name", "a"}}, {}}), other),
            "all ranks need the same muster: a muster that does not say which is of rank 1 on node "
            "(pid 7), v of rank 0 on node (pid 7)");
}

}  // namespace
}  // namespace muster::cluster
