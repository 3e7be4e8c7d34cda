#include "muster/app/launch/agents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/app/join/orders.h"

namespace muster::app {
namespace {

using ::testing::HasSubstr;

// Ranks 0 and 1 on "a", where both may use four cores, 2 and 3 on "b", each bound to one.
AgentWorkers four() {
  const auto agent = [](std::int32_t number, const std::string& host, std::vector<int> cores) {
    return cluster::Attend{
        .number = number, .host = host, .boot_id = host, .pid = 7, .cores = cores};
  };
  return {.launcher = "Slurm",
          .address = "a",
          .self = agent(0, "a", {0, 1, 2, 3}),
          .agents = {agent(1, "a", {0, 1, 2, 3}), agent(2, "b", {0}), agent(3, "b", {1})},
          .start = {}};
}

TEST(AgentWorkers, ShareCoresThatTheirLauncherHasNotDividedItself) {
  EXPECT_EQ(core_share(four(), 0, 4), (CoreShare{0, 2}));
  EXPECT_EQ(core_share(four(), 1, 4), (CoreShare{1, 2}));
  EXPECT_EQ(core_share(four(), 3, 4), (CoreShare{0, 1}));
  EXPECT_EQ(core_share(four(), 0, 1), (CoreShare{0, 1})) << "the other process has no worker";
}

TEST(AgentWorkers, AreToldByHost) {
  EXPECT_EQ(describe(four(), 4), "started by Slurm: 2 workers here, 2 on b");
  EXPECT_EQ(describe(four(), 1), "started by Slurm: 1 worker here; 3 more have none");
}

TEST(AgentWorkers, NeedAProcessEach) {
  job::JobSpec job;
  job.workers.count = 4;
  EXPECT_TRUE(check_room(four(), job));
  job.workers.standbys = 1;
  EXPECT_THAT(check_room(four(), job).error().message,
              HasSubstr("4 processes were started by Slurm, and the job has 5 workers"));
  job.workers.standbys = 0;
  job.autoscaling.policy = job::AutoscalingPolicy::kProbe;
  EXPECT_THAT(check_room(four(), job).error().message, HasSubstr("autoscaling.policy"));
}

TEST(AgentWorkers, AreStartedByTheAgentOfTheirNumber) {
  AgentWorkers agents = four();
  std::int32_t started = 0;
  std::string said;
  agents.start = [&](std::int32_t number, std::string input) -> Result<std::unique_ptr<Process>> {
    started = number;
    said = std::move(input);
    return fail(ErrorCode::kUnavailable, "noted");
  };
  const auto workers = remote_workers(agents, 4, {{"A", "b"}}, {.resumes = true});
  EXPECT_EQ(workers.hosts, (std::vector<std::string>{"a", "b", "b"}));
  EXPECT_EQ(workers.carrier, "Slurm");
  EXPECT_FALSE(workers.start(
      {.host = "a", .worker = 1, .joins = true, .coordinator = {"a", 9}, .credentials = "secret"}));
  EXPECT_EQ(started, 1);
  const auto orders = read_orders(said);
  ASSERT_TRUE(orders) << orders.error().message;
  EXPECT_EQ(orders->worker, 1);
  EXPECT_EQ(orders->local_worker, 1);
  EXPECT_EQ(orders->local_workers, 2);
  EXPECT_EQ(orders->environment.at("A"), "b");
  EXPECT_TRUE(orders->resumes && orders->joins && !orders->needs_run_folder);
}

}  // namespace
}  // namespace muster::app
