#include "muster/cluster/process_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <map>

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
  void on_stop(int /*signal*/, bool again) override { stops.push_back(again); }
  void on_leash_end() override { ++leash_ends; }

  std::map<std::size_t, std::vector<std::string>> lines;
  std::vector<bool> stops;
  int leash_ends = 0;
  std::function<void(const std::string&)> then;
};

ProcessSpec shell(const std::string& script) {
  return {.command = {"/bin/sh", "-c", script},
          .environment = {{"WORD", "w"}},
          .folder = {},
          .cores = {}};
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
  const muster::testing::TempFolder folder;
  const std::string deaf = (folder.path() / "deaf").string();
  const auto end = run_all(
      {.processes = {shell("exec sleep 100"),
                     shell(fmt::format(
                         "until [ -e {} ]; do sleep 0.01; done; echo last words; exit 3", deaf)),
                     // It ignores the wish, and is killed.
                     shell(fmt::format("trap '' TERM; : > {}; while :; do sleep 1; done", deaf))},
       .last_words = std::chrono::milliseconds(20),
       .grace = std::chrono::milliseconds(50)},
      listener);
  EXPECT_EQ(end.failed, 1U);
  EXPECT_EQ(end.members[0].end.signal, SIGTERM);
  EXPECT_EQ(end.members[1].end.exit_status, 3);
  EXPECT_THAT(end.members[1].last_lines, ElementsAre("last words"));
  EXPECT_EQ(end.members[2].end.signal, SIGKILL);
}

TEST(ProcessGroup, ASignalAfterAFailureDoesNotHideIt) {
  Listener listener;
  bool told = false;
  listener.then = [&told](const std::string& line) {
    if (line == "asked to leave" && !std::exchange(told, true)) std::raise(SIGTERM);
  };
  const auto end = run_all(
      {.processes = {shell("exit 3"), shell("trap 'echo asked to leave; sleep 0.2; exit 0' TERM; "
                                            "while :; do sleep 0.01; done")},
       .last_words = std::chrono::milliseconds(20)},
      listener);
  EXPECT_EQ(end.failed, 0U);
  EXPECT_EQ(end.signal, SIGTERM);
  EXPECT_THAT(listener.stops, ElementsAre(false));
}

TEST(ProcessGroup, OthersMaySayWhatItHasDoneToThem) {
  Listener listener;
  const auto end = run_all(
      {.processes = {shell("kill -9 $$"), shell("sleep 0.1; echo 'lost the other' >&2; exit 1")},
       .last_words = std::chrono::seconds(60)},
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
  const auto end = run_all(
      {.processes = {shell("trap '' TERM; echo ready; sleep 1000")}, .leash = ends[0]}, listener);
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

// A child of its own keeps the pipe open.
TEST(ProcessGroup, GrandchildrenAreNotWaitedFor) {
  Listener listener;
  const std::string mark =
      ::testing::TempDir() + "muster_process_group_" + std::to_string(::getpid());
  const std::string orphan = "setsid sh -c ': > " + mark + "; exec sleep 3' & ";
  const auto end =
      run_all({.processes = {shell(orphan + "while [ ! -e " + mark +
                                   " ]; do sleep 0.01; done; rm " + mark + "; echo done")}},
              listener);
  EXPECT_FALSE(end.failed);
  EXPECT_THAT(listener.lines[0], ElementsAre("done"));
}

}  // namespace
}  // namespace muster::cluster
