// Every path of up to six events through a job of one to five workers, on the coordinator's state
// machine. Paths that lead to the same situation are followed once; a situation is all that the
// next events may depend on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "muster/base/testing/sanitized.h"
#include "muster/cluster/testing/membership_world.h"

namespace muster::cluster {
namespace {

using paths::Event;
using paths::Job;
using paths::World;

constexpr int kEvents = kSanitized ? 3 : 6;
constexpr std::size_t kMendEvery = 64;

std::string describe(const std::vector<std::pair<Event, std::int32_t>>& path) {
  std::string text;
  for (const auto& [event, worker] : path)
    text += fmt::format("event {} of worker {}, ", static_cast<int>(event), worker);
  return text;
}

class MembershipPaths : public ::testing::TestWithParam<Job> {};

TEST_P(MembershipPaths, HoldTheRulesAtEveryTurn) {
  const Job job = GetParam();
  std::vector<World> edge{World(job)};
  ASSERT_EQ(edge[0].last.generation, Generation{1});
  std::unordered_set<std::string> seen{edge[0].situation()};
  std::size_t turns = 0;
  std::size_t known = 0;  // of them: that lead where another has led
  for (int depth = 0; depth < kEvents && !HasFatalFailure(); ++depth) {
    std::vector<World> next;
    for (const World& world : edge) {
      for (const Event event : paths::kAll) {
        for (std::int32_t worker = 0; worker < job.workers && !HasFatalFailure(); ++worker) {
          if (!world.is_possible(event, worker)) continue;
          World after = world;
          after.path.emplace_back(event, worker);
          after.happen(event, worker);
          after.check_outcome();
          const bool is_new = seen.insert(after.situation()).second;
          if (is_new || ++known % kMendEvery == 0) World(after).mend();
          if (HasFailure()) ADD_FAILURE() << "after " << describe(after.path);
          ++turns;
          if (is_new) next.push_back(std::move(after));
        }
      }
    }
    edge = std::move(next);
  }
  RecordProperty("situations", static_cast<int>(seen.size()));
  RecordProperty("turns", static_cast<int>(turns));
  EXPECT_GT(seen.size(), kSanitized ? 10U : 40U);
}

// Every number of workers up to five with every least number of them; and some that begin with
// fewer, to whom others come later; or where each keeps its rank, with and without standbys; or
// where each generation keeps more than half of the one before.
INSTANTIATE_TEST_SUITE_P(
    Jobs, MembershipPaths,
    ::testing::Values(Job{1, 1}, Job{2, 1}, Job{2, 2}, Job{3, 1}, Job{3, 2}, Job{3, 3}, Job{4, 1},
                      Job{4, 2}, Job{4, 3}, Job{4, 4}, Job{5, 1}, Job{5, 2}, Job{5, 3}, Job{5, 4},
                      Job{5, 5}, Job{3, 1, 1}, Job{4, 2, 2}, Job{2, 2, 0, true}, Job{3, 3, 0, true},
                      Job{4, 4, 0, true}, Job{3, 2, 0, true, 1}, Job{4, 2, 0, true, 2},
                      Job{2, 1, 0, false, 0, true}, Job{3, 1, 0, false, 0, true},
                      Job{4, 1, 0, false, 0, true}, Job{5, 1, 0, false, 0, true},
                      Job{4, 3, 0, false, 0, true}, Job{4, 1, 2, false, 0, true}),
    [](const auto& job) {
      return fmt::format("{}of{}{}{}{}{}", job.param.least, job.param.workers,
                         job.param.later > 0 ? "Later" : "", job.param.keeps_ranks ? "inPlace" : "",
                         job.param.standbys > 0 ? "WithStandbys" : "",
                         job.param.majority ? "ByMajority" : "");
    });

}  // namespace
}  // namespace muster::cluster
