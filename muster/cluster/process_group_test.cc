#include "muster/cluster/process_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <map>

#include "muster/testing/soon.h"
#include "muster/testing/temp_folder.h"

namespace muster::cluster {
namespace {

using ::testing::ElementsAre;

class Listener final : public ProcessGroupObserver {
 public:
  void on_line(std::size_t process, bool is_error, std::string_view line) override {
    lines[process].push_back((is_error ? "! " : "") + std::string(line));
    if (then) then(std::string(line));
  }
  void on_stop(int /*signal*/, bool again) override {
    stops.push_back(again);
    if (on_each_stop) on_each_stop();
  }
  void on_leash_end() override { ++leash_ends; }

  std::map<std::size_t, std::vector<std::string>> lines;
  std::vector<bool> stops;
  int leash_ends = 0;
  std::function<void(const std::string&)> then;
  std::function<void()> on_each_stop;
};

ProcessSpec shell(const std::string& script) {
  return {.command = {"/bin/sh", "-c", script},
          .environment = {{"WORD", "w"}},
          .folder = {},
          .cores = {}};
}

// Of a script: until the file is there.
std::string wait_for(const std::string& path) {
  return fmt::format("until [ -e {} ]; do sleep 0.01; done; ", path);
}

ProcessGroupEnd run_all(ProcessGroupSpec spec, Listener& listener) {
  auto end = run_process_group(spec, system_processes(), listener, create_null_logger());
  EXPECT_TRUE(end) << end.error().message;
  return end ? *std::move(end) : ProcessGroupEnd{};
}

TEST(ProcessGroup, LinesGoToLogsAsWell) {
  const muster::testing::TempFolder folder;
  Listener listener;
  const auto end = run_all({.processes = {shell("echo one"), shell("echo two >&2; exit 3")},
                            .logs = {{&system_files(), folder / "logs", 4}}},
                           listener);
  EXPECT_THAT(listener.lines[1], ElementsAre("! two"));
  ASSERT_EQ(end.members.size(), 2U);
  EXPECT_EQ(end.members[1].log, folder / "logs/rank-5.log");
  EXPECT_EQ(system_files().read(folder / "logs/rank-4.log").value_or(""), "one\n");
  EXPECT_EQ(system_files().read(end.members[1].log).value_or(""), "two\n");
}

TEST(ProcessGroup, EndsWhenAllHave) {
  Listener listener;
  const auto end =
      run_all({.processes = {shell("echo one; echo $WORD >&2"), shell("printf 'no end of line'")}},
              listener);
  EXPECT_FALSE(end.failed);
  EXPECT_FALSE(end.signal);
  ASSERT_EQ(end.members.size(), 2U);
  EXPECT_EQ(end.members[0].end.exit_status, 0);
  EXPECT_THAT(listener.lines[1], ElementsAre("no end of line"));
  EXPECT_THAT(listener.lines[0], ::testing::UnorderedElementsAre("one", "! w"));
}

TEST(ProcessGroup, OneFailureEndsTheOthers) {
  Listener listener;
  const auto end =
      run_all({.processes = {shell("exec sleep 1000"), shell("echo last words; exit 3")},
               .last_words = std::chrono::milliseconds(20),
               .grace = muster::testing::kHang},
              listener);
  EXPECT_EQ(end.failed, 1U);
  EXPECT_EQ(end.members[0].end.signal, SIGTERM);
  EXPECT_EQ(end.members[1].end.exit_status, 3);
  EXPECT_THAT(end.members[1].last_lines, ElementsAre("last words"));
}

TEST(ProcessGroup, WhoIgnoresTheWishIsKilled) {
  Listener listener;
  const muster::testing::TempFolder folder;
  const std::string deaf = (folder.path() / "deaf").string();
  const auto end =
      run_all({.processes = {shell(wait_for(deaf) + "exit 3"),
                             shell(fmt::format("trap '' TERM; : > {}; exec sleep 1000", deaf))},
               .last_words = std::chrono::milliseconds(20),
               .grace = std::chrono::milliseconds(50)},
              listener);
  EXPECT_EQ(end.failed, 0U);
  EXPECT_EQ(end.members[1].end.signal, SIGKILL);
}

// The other one is still there when the signal comes: it leaves once that has been heard.
TEST(ProcessGroup, ASignalAfterAFailureDoesNotHideIt) {
  const muster::testing::TempFolder folder;
  const std::string ready = (folder.path() / "ready").string();
  const std::string heard = (folder.path() / "heard").string();
  Listener listener;
  bool told = false;
  listener.then = [&told](const std::string& line) {
    if (line == "asked to leave" && !std::exchange(told, true)) std::raise(SIGTERM);
  };
  listener.on_each_stop = [&] { EXPECT_TRUE(write_atomically(system_files(), heard, "yes")); };
  const std::string leaves =
      fmt::format("trap 'echo asked to leave; {}exit 0' TERM; : > {}; while :; do sleep 0.01; done",
                  wait_for(heard), ready);
  const auto end = run_all({.processes = {shell(wait_for(ready) + "exit 3"), shell(leaves)},
                            .last_words = std::chrono::milliseconds(20),
                            .grace = muster::testing::kHang},
                           listener);
  EXPECT_EQ(end.failed, 0U);
  EXPECT_EQ(end.signal, SIGTERM);
  EXPECT_THAT(listener.stops, ElementsAre(false));
}

// The first is not there any more, not even as one that has ended, once the group has seen its end.
TEST(ProcessGroup, OthersMaySayWhatItHasDoneToThem) {
  const muster::testing::TempFolder folder;
  const std::string pid = (folder.path() / "pid").string();
  Listener listener;
  const auto end = run_all(
      {.processes = {shell(fmt::format("echo $$ > {0}.new; mv {0}.new {0}; kill -9 $$", pid)),
                     shell(wait_for(pid) +
                           fmt::format("while kill -0 $(cat {}) 2> /dev/null; do sleep 0.01; done; "
                                       "echo 'lost the other' >&2; exit 1",
                                       pid))},
       .last_words = muster::testing::kHang},
      listener);
  EXPECT_EQ(end.failed, 0U);
  EXPECT_EQ(end.members[0].end.signal, SIGKILL);
  EXPECT_THAT(listener.lines[1], ElementsAre("! lost the other"));
}

TEST(ProcessGroup, ASignalAsksAllToLeaveAndTheNextKills) {
  Listener listener;
  int ready = 0;
  listener.then = [&ready](const std::string& line) {
    if (line == "ready" && ++ready == 2) std::raise(SIGTERM);
    if (line == "not yet") std::raise(SIGINT);
  };
  const std::string patient =
      "trap 'echo gone; exit 0' TERM; echo ready; while :; do sleep 0.01; done";
  const std::string deaf = "trap 'echo not yet' TERM; echo ready; while :; do sleep 0.01; done";
  const auto end = run_all({.processes = {shell(patient), shell(deaf)}}, listener);
  EXPECT_EQ(end.signal, SIGTERM);
  EXPECT_FALSE(end.failed);
  EXPECT_EQ(end.members[1].end.signal, SIGKILL);
  EXPECT_THAT(listener.stops, ElementsAre(false, true));
}

TEST(ProcessGroup, WhatCannotBeStartedLeavesNothing) {
  Listener listener;
  const ProcessGroupSpec spec{
      .processes = {shell("exec sleep 100"),
                    {.command = {"/no/such"}, .environment = {}, .folder = {}, .cores = {}}}};
  const auto end = run_process_group(spec, system_processes(), listener, create_null_logger());
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(run_process_group({}, system_processes(), listener, create_null_logger()));
}

TEST(ProcessGroup, WhereTheLeashEndsAllAreKilled) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(::write(ends[1], "still here", 10), 10);
  Listener listener;
  listener.then = [&ends](const std::string& line) {
    if (line == "ready") ::close(ends[1]);
  };
  const auto end =
      run_all({.processes = {shell("trap '' TERM; echo ready; exec sleep 1000")}, .leash = ends[0]},
              listener);
  EXPECT_EQ(end.members[0].end.signal, SIGKILL);
  EXPECT_EQ(listener.leash_ends, 1);
  EXPECT_FALSE(end.signal);
  ::close(ends[0]);
}

TEST(ProcessGroup, WhatStillRunsAfterItsTimeIsKilled) {
  Listener listener;
  const auto end = run_all({.processes = {shell("exit 0"), shell("exec sleep 1000")},
                            .at_most = std::chrono::milliseconds(200)},
                           listener);
  EXPECT_EQ(end.members[1].end.signal, SIGKILL);
}

// A child of its own keeps the pipe open, and is still there.
TEST(ProcessGroup, GrandchildrenAreNotWaitedFor) {
  const muster::testing::TempFolder folder;
  const std::string pid = (folder.path() / "pid").string();
  Listener listener;
  const std::string orphan =
      fmt::format("setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 300' & ", pid);
  const auto end = run_all({.processes = {shell(orphan + wait_for(pid) + "echo done")}}, listener);
  EXPECT_FALSE(end.failed);
  EXPECT_THAT(listener.lines[0], ElementsAre("done"));
  const auto number = system_files().read(pid);
  ASSERT_TRUE(number) << number.error().message;
  EXPECT_TRUE(send_signal(std::stoi(*number), SIGKILL)) << "it was waited for";
}

}  // namespace
}  // namespace muster::cluster
