#include "muster/cli/plan_link.h"

#include <gtest/gtest.h>

#include <sstream>

#include "muster/cli/fake_machine.h"
#include "muster/cli/plan_job.h"

namespace muster::cli {
namespace {

using std::chrono::microseconds;

class PlanLink : public ::testing::Test {
 protected:
  PlannedLink link() { return link_for(request_, job_, context_); }
  void expect_usual(Duration latency, double bytes_per_second) {
    const PlannedLink found = link();
    EXPECT_EQ(found.cost.latency, latency);
    EXPECT_EQ(found.cost.bytes_per_second, bytes_per_second);
    EXPECT_EQ(found.from.latency, LinkOrigin::kAssumed);
    EXPECT_EQ(found.from.bandwidth, LinkOrigin::kAssumed);
  }

  PlanRequest request_{.job = "job.yaml", .options = {}};
  job::JobSpec job_;
  FakeMachine machine_;
  std::ostringstream out_, err_;
  Context context_{system_files(), system_clock(), machine_, out_, err_, {}, "/nowhere/muster"};
};

TEST_F(PlanLink, IsMeasuredOnTheWireThatTheWorkersWouldUse) {
  machine_.link_ = comm::MeasuredLink{{8e-6, 2.5e-10}, 1e-6};
  const PlannedLink memory = link();
  EXPECT_EQ(memory.cost.latency, microseconds(10)) << "both ends' part of a message is in it";
  EXPECT_DOUBLE_EQ(memory.cost.bytes_per_second, 4e9);
  EXPECT_EQ(memory.wire, comm::Wire::kMemory);
  EXPECT_EQ(memory.from.latency, LinkOrigin::kMeasured);
  EXPECT_EQ(memory.from.bandwidth, LinkOrigin::kMeasured);
  EXPECT_FALSE(memory.from.is_assumed());

  job_.communication.transport = job::TransportKind::kTcp;
  EXPECT_EQ(link().wire, comm::Wire::kTcp);
  EXPECT_EQ(machine_.measured_wires_, (std::vector{comm::Wire::kMemory, comm::Wire::kTcp}));
  EXPECT_EQ(err_.str(), "");
}

TEST_F(PlanLink, WhatIsGivenWins) {
  request_.latency = microseconds(7);
  const PlannedLink half = link();
  EXPECT_EQ(half.cost.latency, microseconds(7));
  EXPECT_DOUBLE_EQ(half.cost.bytes_per_second, 4e9);
  EXPECT_EQ(half.from.latency, LinkOrigin::kGiven);
  EXPECT_EQ(half.from.bandwidth, LinkOrigin::kMeasured);

  request_.bytes_per_second = 5e8;
  machine_.measured_wires_.clear();
  const PlannedLink whole = link();
  EXPECT_EQ(whole.cost.bytes_per_second, 5e8);
  EXPECT_EQ(whole.from.bandwidth, LinkOrigin::kGiven);
  EXPECT_TRUE(machine_.measured_wires_.empty()) << "nothing is left to measure";
}

TEST_F(PlanLink, AMeasurementThatFailsIsToldAndTheUsualAssumed) {
  machine_.link_ = fail(ErrorCode::kUnavailable, "no memfd");
  expect_usual(microseconds(20), 4e9);
  EXPECT_EQ(link().from.failure, "no memfd");
  EXPECT_NE(err_.str().find("warning: the link between two workers could not be measured"),
            std::string::npos);
  EXPECT_NE(err_.str().find("no memfd"), std::string::npos);

  request_.latency = microseconds(7);
  const PlannedLink half = link();
  EXPECT_EQ(half.from.latency, LinkOrigin::kGiven);
  EXPECT_EQ(half.from.bandwidth, LinkOrigin::kAssumed);
  EXPECT_TRUE(half.from.is_assumed());
}

TEST_F(PlanLink, WaysToOtherHostsAreAssumed) {
  job_.workers.listen = "10.0.0.5:0";
  expect_usual(microseconds(100), 1e9);
  job_.workers.listen.clear();
  request_.other_hosts = true;
  expect_usual(microseconds(100), 1e9);
  EXPECT_TRUE(machine_.measured_wires_.empty());
  EXPECT_EQ(err_.str(), "") << "nothing has failed";
}

TEST_F(PlanLink, HostsOfTheJobCountByWhereTheyAre) {
  job_.workers.hosts = {{"localhost", 2}, {"node7", 1}};
  expect_usual(microseconds(100), 1e9);
  EXPECT_TRUE(machine_.measured_wires_.empty());
  job_.workers.hosts = {{"localhost", 2}, {machine_.host(), 2}};
  EXPECT_EQ(link().from.latency, LinkOrigin::kMeasured);
  EXPECT_EQ(machine_.measured_wires_, (std::vector{comm::Wire::kMemory}));
}

TEST_F(PlanLink, OtherEnginesLinksAreAssumed) {
  job_.communication.engine = job::EngineKind::kMpi;
  expect_usual(microseconds(20), 4e9);
  EXPECT_TRUE(machine_.measured_wires_.empty());
}

TEST_F(PlanLink, TheTextSaysWhereItIsFrom) {
  const layout::LinkCost cost{microseconds(20), 4e9};
  EXPECT_EQ(link_text(cost, {LinkOrigin::kMeasured, LinkOrigin::kMeasured}),
            "20 µs a message, 3.7 GiB/s (measured)");
  EXPECT_EQ(link_text(cost, {LinkOrigin::kGiven, LinkOrigin::kAssumed}),
            "20 µs a message (given), 3.7 GiB/s (assumed)");
}

}  // namespace
}  // namespace muster::cli
