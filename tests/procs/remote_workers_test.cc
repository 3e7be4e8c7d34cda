// Workers for which a process here stands, as ssh's does for one on another host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/cluster/environment.h"
#include "muster/cluster/launcher.h"
#include "muster/cluster/whereabouts.h"
#include "tests/procs/local_launcher.h"

namespace muster::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RemoteWatcher : public LaunchObserver {
 public:
  void on_line(Rank rank, bool /*is_error*/, std::string_view line) override {
    lines[to_int(rank)].emplace_back(line);
  }
  void on_loss(const JobFailure& loss, const Remainder& left) override {
    losses.push_back(describe_loss(loss, left));
  }
  void on_distrust(Rank rank, const std::string& host) override {
    distrusted = fmt::format("{} of {}", to_int(rank), host);
    std::raise(SIGTERM);
  }
  void on_generation(const Welcome& generation) override {
    members.clear();
    for (const auto& member : generation.members) members.insert(member.info.worker);
    if (then) then();
  }
  void on_restart(Rank rank, int /*pid*/) override { restarted.push_back(to_int(rank)); }
  void on_drain(Rank rank, Departure /*how*/) override { drained.insert(to_int(rank)); }
  void on_standby_moved(Rank rank, const std::string& host) override {
    moved.emplace_back(to_int(rank), host);
    std::raise(SIGTERM);
  }
  void on_rest(const std::string& host, Duration left_alone) override {
    rests.emplace_back(host, left_alone);
    if (then) then();
  }
  std::function<void()> then;  // after a generation or a rest
  std::set<int> members, drained;
  std::vector<int> restarted;
  std::vector<std::pair<int, std::string>> moved;
  std::vector<std::pair<std::string, Duration>> rests;
  std::map<int, std::vector<std::string>> lines;
  std::vector<std::string> losses;
  std::string distrusted;
};

// Two workers here and one on b, which is this host.
class RemoteWorkersTest : public ::testing::Test {
 protected:
  RemoteWorkersTest() {
    spec_.command = {MUSTER_PROCS_WORKER, "wait", "-1"};
    spec_.workers = spec_.max_workers = 3;
    spec_.min_workers = 3;
    spec_.listen = net::Address{"127.0.0.1", 0};
    spec_.remote.hosts = {"b"};
    spec_.remote.carrier = "ssh";
    be_patient(spec_);
  }
  // What stands for it is this command; `act`: of the worker there.
  JobEnd run(const std::vector<std::string>& command) {
    return run_by([command](const RemoteStart& start) {
      EXPECT_EQ(start.host, "b");
      return command;
    });
  }
  using CommandOf = std::function<std::vector<std::string>(const RemoteStart&)>;
  JobEnd run_by(const CommandOf& command_of) {
    spec_.remote.start = [command_of, seen = whereabouts_->address()](const RemoteStart& start) {
      return system_processes().spawn(
          {.command = command_of(start),
           .environment = to_variables({.coordinator = start.coordinator,
                                        .worker = start.worker,
                                        .workers = 3,
                                        .credentials = start.credentials,
                                        .whereabouts = seen}),
           .folder = {},
           .cores = {}});
    };
    const auto end = create_local_launcher(system_processes(), system_files(), create_null_logger())
                         ->run(spec_, watcher_);
    EXPECT_TRUE(end) << end.error().message;
    return end.value_or(JobEnd{});
  }
  static std::vector<std::string> worker(const std::string& act) {
    return {MUSTER_PROCS_WORKER, act, "2"};
  }
  std::unique_ptr<Whereabouts> whereabouts_ = *Whereabouts::create();  // nobody reads it
  LaunchSpec spec_;
  RemoteWatcher watcher_;
};

TEST_F(RemoteWorkersTest, OneThatEndsThereIsNamedWithItsHost) {
  const auto end = run(worker("exit3"));
  ASSERT_TRUE(end.failure);
  EXPECT_EQ(end.failure->rank, Rank{2});
  EXPECT_EQ(end.failure->reason, "exit status 3");
  EXPECT_THAT(describe(*end.failure), HasSubstr("rank 2 on b (pid "));
  EXPECT_EQ(end.exit_statuses.size(), 3U);
}

TEST_F(RemoteWorkersTest, WhatStandsForItMayEndWithoutAWordOfIt) {
  const auto end = run({"sh", "-c", "echo 'b went away' >&2; exit 255"});
  ASSERT_TRUE(end.failure);
  EXPECT_EQ(end.failure->reason, "lost its ssh session");
  EXPECT_THAT(describe(*end.failure), AllOf(HasSubstr("rank 2 on b: lost its ssh session"),
                                            HasSubstr("hint: its host"), HasSubstr("b went away")));
}

TEST_F(RemoteWorkersTest, OneThatHasLeftHasEndedWellWhateverBecomesOfItsSession) {
  spec_.command = {MUSTER_PROCS_WORKER, "print", "0"};
  const auto end = run({"sh", "-c", std::string(MUSTER_PROCS_WORKER) + " print 0; exit 255"});
  EXPECT_FALSE(end.failure) << describe(*end.failure);
  EXPECT_TRUE(watcher_.losses.empty()) << watcher_.losses.front();
  EXPECT_EQ(watcher_.lines[2].size(), 31U) << "its lines come as those of workers here";
}

TEST_F(RemoteWorkersTest, AHostThatComputesWronglyTwiceStartsNobodyAnew) {
  spec_.min_workers = 1;
  spec_.max_restarts = 5;
  const auto end = run(worker("wrong_bits"));
  EXPECT_FALSE(end.failure) << describe(*end.failure);
  EXPECT_EQ(watcher_.losses.size(), 2U);
  EXPECT_EQ(watcher_.distrusted, "2 of b") << "and this host is not to blame";
}

// One worker here at first, and as many as `wanted_` of hosts in this order.
class ScaledRemoteWorkersTest : public RemoteWorkersTest {
 protected:
  ScaledRemoteWorkersTest() {
    spec_.workers = spec_.min_workers = 1;
    spec_.scale_every = std::chrono::milliseconds(50);
    spec_.scale = [this](const ScaleView&) { return ScaleWish{wanted_, "a test asks"}; };
  }
  void have_room(std::vector<std::string> hosts) {
    spec_.max_workers = 1 + static_cast<std::int32_t>(hosts.size());
    spec_.remote.hosts = std::move(hosts);
  }
  static void stop_the_job() { std::raise(SIGTERM); }

  std::int32_t wanted_ = 1;
  std::vector<std::pair<int, std::string>> started_;
};

TEST_F(ScaledRemoteWorkersTest, TakePlacesInTheirOrderAndLeaveTheLast) {
  have_room({"b", "b", "c"});
  wanted_ = 3;
  std::vector<std::set<int>> seen;
  watcher_.then = [&] {
    seen.push_back(watcher_.members);
    const auto now = watcher_.members.size();
    if (now == 3 && wanted_ == 3)
      wanted_ = 1;
    else if (now == 1 && wanted_ == 1)
      wanted_ = 2;
    else if (now == 2 && wanted_ == 2)
      stop_the_job();
  };
  const auto end = run_by([this](const RemoteStart& start) {
    EXPECT_TRUE(start.joins);
    EXPECT_EQ(start.local_workers, 2) << "cores are shared out among all who may come";
    EXPECT_EQ(start.local_worker, start.worker - 1);
    started_.emplace_back(start.worker, start.host);
    return worker("wait");
  });
  EXPECT_FALSE(end.failure) << describe(*end.failure);
  EXPECT_EQ(seen.back(), (std::set<int>{0, 1}));
  EXPECT_EQ(watcher_.drained, (std::set<int>{1, 2}));
  using Started = std::vector<std::pair<int, std::string>>;
  EXPECT_EQ(started_, (Started{{1, "b"}, {2, "b"}, {1, "b"}})) << "a place that is free again";
  EXPECT_TRUE(watcher_.losses.empty()) << watcher_.losses.front();
  EXPECT_EQ(end.exit_statuses, (std::vector<int>{0, 0, 0}));
}

TEST_F(ScaledRemoteWorkersTest, LeaveAHostAloneThatDoesNotAnswerAndTryItAgain) {
  have_room({"b", "b", "c"});
  spec_.max_restarts = 5;
  wanted_ = 4;
  watcher_.then = [this] {
    if (watcher_.rests.size() >= 2 && watcher_.members.size() == 2) stop_the_job();
  };
  const auto end = run_by([this](const RemoteStart& start) {
    started_.emplace_back(start.worker, start.host);
    if (start.host == "c") return worker("wait");
    return std::vector<std::string>{"sh", "-c", "echo 'no route to b' >&2; exit 255"};
  });
  EXPECT_FALSE(end.failure) << describe(*end.failure);
  EXPECT_EQ(watcher_.members, (std::set<int>{0, 3}));
  ASSERT_EQ(watcher_.losses.size(), 1U) << "of two that were started there, and the next";
  EXPECT_THAT(watcher_.losses[0], HasSubstr("no route to b"));
  EXPECT_TRUE(watcher_.restarted.empty());
  using std::chrono::milliseconds;
  using Rests = std::vector<std::pair<std::string, Duration>>;
  // Once more for each rest until the one on c has started, however long that takes.
  ASSERT_GE(watcher_.rests.size(), 2U);
  watcher_.rests.resize(2);
  EXPECT_EQ(watcher_.rests, (Rests{{"b", milliseconds(500)}, {"b", milliseconds(1000)}}));
  using Started = std::vector<std::pair<int, std::string>>;
  ASSERT_GE(started_.size(), 4U);
  started_.resize(4);
  EXPECT_EQ(started_, (Started{{1, "b"}, {2, "b"}, {3, "c"}, {1, "b"}}));
}

// Its own host is wanted back, so that one is passed over; and it is no restart.
TEST_F(RemoteWorkersTest, AStandbyThatGoesAsItIsToldToIsStartedOnASpareHost) {
  const Path mark =
      Path(::testing::TempDir()) / ("muster_standby_goes_" + std::to_string(::getpid()));
  ASSERT_EQ(::setenv("PROCS_WORKER_MARK", mark.c_str(), 1), 0);
  spec_.keeps_ranks = true;
  spec_.standbys = 1;
  spec_.min_workers = 2;
  spec_.max_restarts = 1;
  spec_.remote.spares = {"b", "c"};
  watcher_.then = [&] { EXPECT_TRUE(write_atomically(system_files(), mark, "go")); };
  std::vector<std::string> hosts;
  run_by([&](const RemoteStart& start) {
    EXPECT_EQ(start.worker, 2);
    hosts.push_back(start.host);
    return worker(start.host == "b" ? "go_as_standby" : "wait");
  });
  EXPECT_TRUE(system_files().remove_all(mark));
  EXPECT_EQ(watcher_.drained, std::set<int>{2});
  EXPECT_EQ(watcher_.moved, (std::vector<std::pair<int, std::string>>{{2, "c"}}));
  EXPECT_EQ(hosts, (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(watcher_.restarted, std::vector<int>{});
}

}  // namespace
}  // namespace muster::cluster
