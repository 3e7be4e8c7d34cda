#pragma once
// A launcher with workers of these tests (procs_worker.cc), and all that it tells.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "muster/cluster/launcher.h"
#include "muster/testing/soon.h"

namespace muster::cluster {

// Everything that happens, and a chance to do something at it.
class Watcher : public LaunchObserver {
 public:
  void on_generation(const Welcome& generation) override {
    welcome = generation;
    if (then) then(*this);
  }
  void on_progress(Rank, const Progress&) override { ++heartbeats; }
  void on_report(Rank rank, const Bytes& content) override {
    reports[to_int(rank)] =
        std::string(reinterpret_cast<const char*>(content.data()), content.size());
  }
  void on_line(Rank rank, bool is_error, std::string_view line) override {
    (is_error ? errors : lines)[to_int(rank)].emplace_back(line);
    if (on_each_line) on_each_line(std::string(line));
  }
  void on_stop(int, Stopping how) override { stops.push_back(how); }
  void on_notice(const std::string& from, Stopping how) override {
    notices.emplace_back(from, how);
    if (on_each_notice) on_each_notice();
  }
  void on_loss(const JobFailure& loss, const Remainder& left) override {
    losses.push_back(describe_loss(loss, left));
    regroups.push_back(left.regroups);
    if (left.workers <= stops_at) std::raise(SIGTERM);
  }

  void on_restart(Rank, int) override { ++restarts; }
  void on_distrust(Rank rank, const std::string& /*host*/) override {
    distrusted.push_back(to_int(rank));
    std::raise(SIGTERM);
  }

  void on_dumps(const std::vector<WorkerState>& states, DumpOccasion) override {
    waiting.clear();
    starting.clear();
    for (const WorkerState& state : states) {
      if (state.waits_to_begin) waiting.push_back(to_int(state.worker));
      if (state.starting) starting.push_back(to_int(state.worker));
    }
    if (on_each_dumps) on_each_dumps();
  }

  int restarts = 0;
  std::vector<int> waiting;   // for others to join, when they were asked where they are
  std::vector<int> starting;  // then
  std::function<void()> on_each_dumps;
  std::vector<int> distrusted;
  int stops_at = 99;  // once so few are left
  std::function<void(Watcher&)> then;
  std::function<void(const std::string&)> on_each_line;
  Welcome welcome;
  int heartbeats = 0;
  std::map<int, std::string> reports;
  std::map<int, std::vector<std::string>> lines, errors;
  std::vector<Stopping> stops;
  std::vector<std::pair<std::string, Stopping>> notices;
  std::function<void()> on_each_notice;
  std::vector<std::string> losses;
  std::vector<bool> regroups;  // likewise
};

// "R", "S", "T", "Z", …; empty: no such process.
inline std::string state_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto after_name = text.rfind(')');
  return after_name == std::string::npos ? "" : text.substr(after_name + 2, 1);
}

inline bool is_gone(int pid) {
  const auto state = state_of(pid);
  return state.empty() || state == "Z";
}

// So that no busy machine decides how a job ends. What a test is about it sets itself.
inline void be_patient(LaunchSpec& spec) {
  spec.join_timeout = spec.heartbeat_timeout = muster::testing::kHang;
  spec.begin_patience = spec.exit_patience = muster::testing::kHang;
}

// Signals to the launcher are raised on the thread that hears of what happens: what kill() sends
// waits on the main thread, which ThreadSanitizer may let sleep over it.
class LocalLauncher : public ::testing::Test {
 protected:
  LocalLauncher() {
    folder_ = Path(::testing::TempDir()) /
              ("muster_procs_" + std::to_string(::getpid()) + "_" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    spec_.workers = spec_.min_workers = 3;
    spec_.log_folder = folder_ / "logs";
    be_patient(spec_);
  }
  ~LocalLauncher() override { std::filesystem::remove_all(folder_); }

  JobEnd run(const std::string& act, int actor) {
    spec_.command = {MUSTER_PROCS_WORKER, act, std::to_string(actor)};
    const auto launcher =
        create_local_launcher(system_processes(), system_files(), create_null_logger());
    const auto end = launcher->run(spec_, watcher_);
    EXPECT_TRUE(end) << end.error().message;
    for (const auto& member : watcher_.welcome.members) EXPECT_TRUE(is_gone(member.info.pid));
    return end ? *end : JobEnd{};
  }

  JobFailure run_to_failure(const std::string& act, int actor) {
    auto end = run(act, actor);
    EXPECT_TRUE(end.failure) << "the job should have failed";
    EXPECT_EQ(end.exit_statuses.size(), static_cast<std::size_t>(spec_.workers));
    return end.failure.value_or(JobFailure{});
  }

  LaunchSpec spec_;
  Watcher watcher_;
  Path folder_;
};

}  // namespace muster::cluster
