// Workers for which a process here stands, as ssh's does for one on another host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "muster/cluster/environment.h"
#include "muster/cluster/launcher.h"
#include "muster/cluster/whereabouts.h"

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
    ::kill(::getpid(), SIGTERM);
  }
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
  }
  // What stands for it is this command; `act`: of the worker there.
  JobEnd run(const std::vector<std::string>& command) {
    spec_.remote.start = [command, seen = whereabouts_->address()](const RemoteStart& start) {
      EXPECT_EQ(start.host, "b");
      return system_processes().spawn(
          {.command = command,
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

}  // namespace
}  // namespace muster::cluster
