// Every path of up to six events through a job of one to five workers, on the coordinator's state
// machine. Before each event those who lack the state may have got it or not. Paths that lead to
// the same situation are followed once; a situation is all that the next events may depend on.
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

class Walk {
 public:
  explicit Walk(const Job& job) : job_(job), edge_{World(job)} { is_new(edge_[0], kEvents); }

  const World& beginning() const { return edge_.front(); }
  std::size_t situations() const { return situations_; }
  std::size_t turns() const { return turns_; }
  std::size_t orphaned() const { return orphaned_; }

  // One event further, after which so many are left to come.
  void go_on(int left) {
    hand_over_state(left + 1);
    std::vector<World> next;
    for (const World& world : edge_)
      for (const Event event : paths::kAll) follow(world, event, left, next);
    edge_ = std::move(next);
  }

 private:
  // Of those who lack the state everybody, nobody or some have got it when the next event comes.
  void hand_over_state(int left) {
    for (std::size_t at = 0; at < edge_.size(); ++at) {
      const World before = edge_[at];  // it moves as others come behind it
      follow(before, Event::kGetState, left, edge_);
    }
  }

  void follow(const World& world, Event event, int left, std::vector<World>& into) {
    for (std::int32_t worker = 0; worker < job_.workers && !has_failed(); ++worker) {
      if (!world.is_possible(event, worker)) continue;
      World after = world;
      after.path.emplace_back(event, worker);
      after.happen(event, worker);
      after.check_outcome();
      const bool is_first = is_new(after, left);
      if (is_first || ++known_ % kMendEvery == 0) World(after).mend();
      if (::testing::Test::HasFailure()) ADD_FAILURE() << "after " << describe(after.path);
      ++turns_;
      if (!world.is_orphaned() && after.is_orphaned()) ++orphaned_;
      if (is_first) into.push_back(std::move(after));
    }
  }

  // What has been seen with more events to come need not be followed again with fewer.
  bool is_new(const World& world, int left) {
    bool is_first = seen_.insert(world.situation(false)).second;
    if (left > 1) is_first = seen_.insert(world.situation(true)).second;
    if (is_first) ++situations_;
    return is_first;
  }

  static bool has_failed() { return ::testing::Test::HasFatalFailure(); }

  Job job_;
  std::vector<World> edge_;  // where paths of so many events lead
  std::unordered_set<std::string> seen_;
  std::size_t situations_ = 0;
  std::size_t turns_ = 0;
  std::size_t known_ = 0;     // of them: that lead where another has led
  std::size_t orphaned_ = 0;  // and that took the state from a member that was still to get it
};

class MembershipPaths : public ::testing::TestWithParam<Job> {};

TEST_P(MembershipPaths, HoldTheRulesAtEveryTurn) {
  Walk walk(GetParam());
  ASSERT_EQ(walk.beginning().last.generation, Generation{1});
  for (int left = kEvents; left-- > 0 && !HasFatalFailure();) walk.go_on(left);
  RecordProperty("situations", static_cast<int>(walk.situations()));
  RecordProperty("turns", static_cast<int>(walk.turns()));
  EXPECT_GT(walk.situations(), kSanitized ? 10U : 20U);
  if (!kSanitized && GetParam().workers > 1) {
    EXPECT_GT(walk.orphaned(), 0U);
  }
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
