#include "tests/procs/local_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <sstream>

#include "muster/base/pause.h"
#include "muster/base/unique_fd.h"
#include "muster/net/loop.h"

namespace muster::cluster {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// What workers that do start may need for it on a busy machine. Tests of who does not start wait
// for it, asleep.
constexpr Duration kToStart = std::chrono::seconds(60);

TEST_F(LocalLauncher, AJobThatGoesWellEndsWell) {
  const auto end = run("store", 0);
  EXPECT_FALSE(end.failure) << describe(*end.failure);
  EXPECT_FALSE(end.signal);
  EXPECT_EQ(end.exit_statuses, (std::vector<int>{0, 0, 0}));
  ASSERT_EQ(watcher_.welcome.members.size(), 3u);
  EXPECT_EQ(watcher_.welcome.generation, Generation{1});
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(watcher_.welcome.members[static_cast<std::size_t>(i)].info.worker, i);
  EXPECT_GE(watcher_.heartbeats, 3);
}

TEST_F(LocalLauncher, OneWorkerIsAnOrdinaryCase) {
  spec_.workers = spec_.min_workers = 1;
  EXPECT_EQ(run("store", 0).exit_statuses, std::vector<int>{0});
}

TEST_F(LocalLauncher, OutputArrivesInWholeLinesAndInTheLogs) {
  const auto end = run("print", 0);
  EXPECT_FALSE(end.failure);
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(watcher_.lines[rank].size(), 30u);
    EXPECT_EQ(watcher_.lines[rank][29], "line 29");
    EXPECT_EQ(watcher_.errors[rank], std::vector<std::string>{"no newline at the end"});
    EXPECT_EQ(watcher_.reports[rank], "a report");
    std::ifstream log(spec_.log_folder / ("rank-" + std::to_string(rank) + ".log"));
    const auto count = std::count(std::istreambuf_iterator<char>(log), {}, '\n');
    EXPECT_EQ(count, 31);
  }
}

// As where the launcher alone was stopped: it finds ended processes and unread good-byes at once.
TEST_F(LocalLauncher, WorkersThatEndWhileItDoesNotRunHaveEndedWell) {
  watcher_.on_each_line = [this](const std::string&) {
    if (watcher_.lines.size() < 3) return;  // not all have been let in
    const Deadline until = muster::testing::soon();
    for (const auto& member : watcher_.welcome.members)
      while (!is_gone(member.info.pid) && !until.passed(system_clock()))
        pause(system_clock(), std::chrono::milliseconds(5));
  };
  const auto end = run("report_much", 0);
  EXPECT_FALSE(end.failure) << describe(*end.failure);
  EXPECT_EQ(end.exit_statuses, (std::vector<int>{0, 0, 0}));
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_TRUE(watcher_.reports[rank].ends_with("a99")) << "rank " << rank;
}

TEST_F(LocalLauncher, AKilledWorkerIsNamed) {
  watcher_.then = [](Watcher& w) { ::kill(w.welcome.members[1].info.pid, SIGKILL); };
  const auto failure = run_to_failure("wait", 0);
  EXPECT_EQ(failure.rank, Rank{1});
  EXPECT_EQ(failure.pid, watcher_.welcome.members[1].info.pid);
  EXPECT_EQ(failure.host, watcher_.welcome.members[1].info.host);
  EXPECT_EQ(failure.reason, "killed by SIGKILL");
  EXPECT_EQ(failure.progress, (Progress{Step{17}, "update", "clip gradients"}));
  EXPECT_FALSE(failure.last_heard) << "it has left its whereabouts";
  EXPECT_THAT(failure.action, HasSubstr("2 workers are left, 3 are needed"));
}

// The system's files, but for its counter of kills.
class Counting final : public Files {
 public:
  Result<std::string> read(const Path& path) override {
    if (on_read) on_read(path);
    if (path != "/proc/vmstat") return system_files().read(path);
    return fmt::format("nr_free_pages 12\noom_kill_disable 9\noom_kill {}\nswap_ra 1\n", kills);
  }
  Result<std::unique_ptr<WritableFile>> open(const Path& path, Open how) override {
    return system_files().open(path, how);
  }
  Result<std::unique_ptr<MappedFile>> map(const Path& path) override {
    return system_files().map(path);
  }
  Result<std::string> read_up_to(const Path& path, std::size_t most) override {
    return system_files().read_up_to(path, most);
  }
  Result<std::size_t> read_at(const Path& path, std::uint64_t offset,
                              std::span<std::byte> into) override {
    return system_files().read_at(path, offset, into);
  }
  Result<std::vector<std::string>> list(const Path& of) override { return system_files().list(of); }
  Status create_folders(const Path& folder) override {
    return system_files().create_folders(folder);
  }
  Status rename(const Path& from, const Path& to) override {
    return system_files().rename(from, to);
  }
  Status link(const Path& target, const Path& at) override {
    return system_files().link(target, at);
  }
  Status remove_all(const Path& path) override { return system_files().remove_all(path); }
  Status sync_folder(const Path& folder) override { return system_files().sync_folder(folder); }
  Result<std::uint64_t> size(const Path& path) override { return system_files().size(path); }
  bool exists(const Path& path) override { return system_files().exists(path); }
  Result<std::unique_ptr<FileLock>> lock(const Path& path) override {
    return system_files().lock(path);
  }

  std::atomic<int> kills{3};
  std::function<void(const Path&)> on_read;
};

TEST_F(LocalLauncher, AKillForLackOfMemoryIsCalledSo) {
  Counting files;
  spec_.command = {MUSTER_PROCS_WORKER, "wait", "0"};
  for (const bool lacks : {true, false}) {
    watcher_.then = [&](Watcher& w) {
      if (lacks) ++files.kills;
      ::kill(w.welcome.members[1].info.pid, SIGKILL);
    };
    const auto end = create_local_launcher(system_processes(), files, create_null_logger())
                         ->run(spec_, watcher_);
    ASSERT_TRUE(end && end->failure);
    EXPECT_EQ(end->failure->reason,
              lacks ? "killed by SIGKILL, as the system does for lack of memory: it has killed 1 "
                      "process for it since the job began"
                    : "killed by SIGKILL");
  }
}

// One that has ended is seen to have only once show() says so, or it is killed.
class Late final : public Process {
 public:
  explicit Late(std::unique_ptr<Process> real) : real_(std::move(real)) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    seen_.reset(ends[0]);
    show_.reset(ends[1]);
  }
  int pid() const noexcept override { return real_->pid(); }
  int end_fd() const noexcept override { return seen_.get(); }
  int output_fd() const noexcept override { return real_->output_fd(); }
  int error_fd() const noexcept override { return real_->error_fd(); }
  Status signal(int number) override {
    show();
    return real_->signal(number);
  }
  // The system may take a moment to end one that was killed just now.
  std::optional<ProcessEnd> poll() override { return is_shown_ ? real_->poll() : std::nullopt; }
  void show() {
    if (is_shown_.exchange(true)) return;
    EXPECT_EQ(::write(show_.get(), "!", 1), 1);
  }

 private:
  std::unique_ptr<Process> real_;
  UniqueFd seen_, show_;
  std::atomic<bool> is_shown_{false};
};

// This worker of those that are started first is a late one.
class OneIsLate final : public Processes {
 public:
  explicit OneIsLate(int worker) : worker_(worker) {}
  Result<std::unique_ptr<Process>> spawn(const ProcessSpec& spec) override {
    MUSTER_ASSIGN(auto process, system_processes().spawn(spec));
    if (started_++ != worker_) return process;
    auto late = std::make_unique<Late>(std::move(process));
    it = late.get();
    return std::unique_ptr<Process>(std::move(late));
  }
  std::atomic<Late*> it = nullptr;

 private:
  const int worker_;
  int started_ = 0;
};

// Its connections break as it dies. Where the machine has much to do its launcher sees its end much
// later: here only when it has asked the system twice what has become of it.
TEST_F(LocalLauncher, AWorkerWhoseEndIsSeenLateIsNamedWithTheSignalThatKilledIt) {
  Counting files;
  OneIsLate processes(1);
  int asked = 0;
  files.on_read = [&](const Path& path) {
    Late* late = processes.it;
    if (late == nullptr || asked == 2) return;
    if (path == fmt::format("/proc/{}/stat", late->pid()) && ++asked == 2) late->show();
  };
  watcher_.then = [&](Watcher& w) { ::kill(w.welcome.members[1].info.pid, SIGKILL); };
  spec_.command = {MUSTER_PROCS_WORKER, "wait", "0"};
  const auto end =
      create_local_launcher(processes, files, create_null_logger())->run(spec_, watcher_);
  ASSERT_TRUE(end && end->failure);
  EXPECT_EQ(end->failure->rank, Rank{1});
  EXPECT_EQ(end->failure->reason, "killed by SIGKILL");
  EXPECT_EQ(asked, 2);
}

TEST_F(LocalLauncher, HoweverAWorkerEndsItIsNamedWithTheReason) {
  struct Case {
    const char* what;
    int actor;
    const char* reason;
  };
  for (const auto& [what, actor, reason] :
       {Case{"segv", 2, "killed by SIGSEGV"}, Case{"exit3", 1, "exit status 3"},
        Case{"exit0", 1, "exit status 0 before the job was over"},
        Case{"crash_before_join", 1, "killed by SIGABRT"},
        Case{"exit_before_join", 0, "exit status 2"}}) {
    const auto failure = run_to_failure(what, actor);
    EXPECT_EQ(failure.rank, Rank{actor}) << what;
    EXPECT_EQ(failure.reason, reason) << what;
  }
}

TEST_F(LocalLauncher, AnExceptionShowsItsLastLines) {
  const auto failure = run_to_failure("throw", 0);
  EXPECT_EQ(failure.rank, Rank{0});
  EXPECT_EQ(failure.reason, "killed by SIGABRT");
  ASSERT_FALSE(failure.last_lines.empty());
  EXPECT_THAT(failure.last_lines.back(), HasSubstr("out of cheese"));
  EXPECT_THAT(describe(failure), HasSubstr("out of cheese"));
  EXPECT_EQ(failure.log, (spec_.log_folder / "rank-0.log").string());
}

TEST_F(LocalLauncher, ALossThatTheJobOutlivesIsToldWithItsLastWords) {
  spec_.min_workers = 2;
  const auto end = run("throw", 1);
  EXPECT_FALSE(end.failure) << describe(*end.failure);
  ASSERT_EQ(watcher_.losses.size(), 1U);
  const std::string& told = watcher_.losses[0];
  EXPECT_THAT(told, StartsWith("worker 1 (pid "));
  EXPECT_THAT(told, HasSubstr("killed by SIGABRT at step 17, update, in clip gradients; 2 workers "
                              "are left, going on; its log: " +
                              (spec_.log_folder / "rank-1.log").string() + " ends with: "));
  EXPECT_THAT(told, ::testing::EndsWith("out of cheese"));
  EXPECT_EQ(watcher_.regroups, std::vector{true});
  EXPECT_EQ(told.find('\n'), std::string::npos);
}

// As of a library that calls exit(): a death like any other. A connection may break long before its
// process is seen to end, so which of the two is told first is open.
TEST_F(LocalLauncher, AnEndWithoutAWordIsALossThatTheJobOutlives) {
  spec_.min_workers = 1;
  watcher_.stops_at = 1;
  const auto end = run("exit_at_other_steps", 0);
  EXPECT_FALSE(end.failure) << describe(*end.failure);
  EXPECT_THAT(watcher_.losses,
              ::testing::UnorderedElementsAre(
                  ::testing::AllOf(StartsWith("worker 2 (pid "),
                                   HasSubstr("exit status 3 at step 18, update")),
                  ::testing::AllOf(StartsWith("worker 1 (pid "),
                                   HasSubstr("exit status 3 at step 19, update"))));
}

TEST_F(LocalLauncher, TheSameEndAtTheSameStepWouldMeetTheOthersToo) {
  spec_.min_workers = 1;
  watcher_.stops_at = 0;
  const auto failure = run_to_failure("exit_at_one_step", 0);
  ASSERT_EQ(watcher_.losses.size(), 1U);
  const bool last_first = failure.rank == Rank{1};
  EXPECT_TRUE(last_first || failure.rank == Rank{2}) << describe(failure);
  EXPECT_THAT(watcher_.losses[0], StartsWith(last_first ? "worker 2 (pid " : "worker 1 (pid "));
  EXPECT_EQ(failure.reason, "exit status 3");
  EXPECT_THAT(failure.action, HasSubstr("ended in the same way at the same step"));
}

TEST_F(LocalLauncher, AFaultOfOneHostIsALossThatTheJobOutlives) {
  spec_.min_workers = 2;
  spec_.max_restarts = 3;
  watcher_.stops_at = 0;
  watcher_.then = [](Watcher& w) {
    const bool is_back = w.welcome.generation > Generation{1} && w.welcome.members.size() == 3;
    if (is_back) std::raise(SIGTERM);
  };
  const auto end = run("lack_memory", 1);
  EXPECT_FALSE(end.failure) << describe(*end.failure);
  EXPECT_EQ(watcher_.restarts, 1) << "the new one is not taken for the one before";
  ASSERT_EQ(watcher_.losses.size(), 1U);
  EXPECT_THAT(watcher_.losses[0],
              HasSubstr("reported an error ([worker/train] not enough memory) at step 17, update"));
}

// Whoever comes as worker 1 has them.
TEST_F(LocalLauncher, AHostThatComputesWronglyTwiceStartsNobodyAnew) {
  spec_.min_workers = 1;
  spec_.max_restarts = 5;
  watcher_.stops_at = 0;
  const auto end = run("wrong_bits", 1);
  EXPECT_FALSE(end.failure) << describe(*end.failure);
  ASSERT_EQ(watcher_.losses.size(), 2U);
  for (const std::string& loss : watcher_.losses)
    EXPECT_THAT(loss, HasSubstr("held other bits than the others"));
  EXPECT_EQ(watcher_.regroups, (std::vector{false, false})) << "wrong bits are told as such";
  EXPECT_EQ(watcher_.restarts, 1);
  EXPECT_EQ(watcher_.distrusted, std::vector{1});
}

TEST_F(LocalLauncher, WhoIsMissingIsNamed) {
  spec_.workers = spec_.min_workers = 2;
  spec_.max_workers = 3;  // another one might come
  spec_.listen = net::Address{"127.0.0.1", 0};
  spec_.credentials = folder_ / "join.key";
  std::filesystem::create_directories(folder_);
  run("sigkill", 1);
  ASSERT_EQ(watcher_.losses.size(), 1U);
  EXPECT_THAT(watcher_.losses[0],
              HasSubstr("1 worker is left, waiting until 1 more has joined (workers.min_workers); "
                        "missing: worker 1; its log: "));
  EXPECT_EQ(watcher_.regroups, std::vector{false});
}

TEST_F(LocalLauncher, AReportedErrorIsTheReason) {
  const auto failure = run_to_failure("numeric", 1);
  EXPECT_EQ(failure.rank, Rank{1});
  EXPECT_EQ(failure.error.code, ErrorCode::kNumeric);
  EXPECT_THAT(failure.error.message, HasSubstr("step 17"));
  EXPECT_EQ(failure.progress.step, Step{17});
  EXPECT_EQ(failure.progress.operation, "clip gradients");
  EXPECT_THAT(failure.action, HasSubstr("the others would meet as well"));
}

// Its end is seen only once both others have told that they lost it, and are gone themselves.
TEST_F(LocalLauncher, WhoOnlyLostAPeerIsNotTheCulprit) {
  for (int actor = 0; actor < 3; ++actor) {
    OneIsLate processes(actor);
    int told = 0;
    watcher_.on_each_line = [&](const std::string& line) {
      if (line.starts_with("gave up") && ++told == 2) processes.it.load()->show();
    };
    spec_.command = {MUSTER_PROCS_WORKER, "die_and_be_blamed", std::to_string(actor)};
    const auto end = create_local_launcher(processes, system_files(), create_null_logger())
                         ->run(spec_, watcher_);
    ASSERT_TRUE(end && end->failure);
    EXPECT_EQ(told, 2);
    EXPECT_EQ(end->failure->rank, Rank{actor}) << describe(*end->failure);
    EXPECT_EQ(end->failure->reason, "killed by SIGKILL");
  }
}

TEST_F(LocalLauncher, AFrozenWorkerIsFoundByItsSilence) {
  spec_.heartbeat_timeout = std::chrono::seconds(10);  // the others are heard later than it anyhow
  const auto failure = run_to_failure("freeze", 2);
  EXPECT_EQ(failure.rank, Rank{2});
  EXPECT_EQ(failure.error.code, ErrorCode::kTimeout);
  EXPECT_EQ(failure.reason, "was silent for too long");
}

TEST_F(LocalLauncher, WhoNeverJoinsIsNamed) {
  spec_.join_timeout = kToStart;
  const auto failure = run_to_failure("never_join", 1);
  EXPECT_EQ(failure.rank, Rank{1});
  EXPECT_EQ(failure.error.code, ErrorCode::kTimeout);
  EXPECT_THAT(failure.error.message, HasSubstr("worker 1 (of 3) did not join"));
  EXPECT_THAT(watcher_.waiting, ::testing::ElementsAre(0, 2)) << "they hold nobody up";
}

TEST_F(LocalLauncher, WhoDiesAsItStartsIsReplacedBeforeTheJobBegins) {
  spec_.max_restarts = 3;
  watcher_.stops_at = -1;
  spec_.environment["PROCS_WORKER_MARK"] = (folder_ / "mark").string();
  std::filesystem::create_directories(folder_);
  watcher_.then = [](Watcher&) { std::raise(SIGTERM); };
  const auto end = run("crash_once_before_join", 1);
  EXPECT_FALSE(end.failure) << describe(*end.failure);
  EXPECT_EQ(watcher_.welcome.generation, Generation{1});
  EXPECT_EQ(watcher_.welcome.members.size(), 3U);
  EXPECT_EQ(watcher_.restarts, 1);
  ASSERT_EQ(watcher_.losses.size(), 1U);
  EXPECT_THAT(watcher_.losses[0], HasSubstr("killed by SIGABRT as it started; 2 other workers are "
                                            "left, and one comes in its place; its log: "));
}

TEST_F(LocalLauncher, WhatComesAgainAsWorkersStartEndsTheJob) {
  spec_.max_restarts = 100;
  watcher_.stops_at = -1;
  for (const int actor : {1, -1}) {
    watcher_.restarts = 0;
    const auto failure = run_to_failure("crash_before_join", actor);
    EXPECT_EQ(failure.reason, "killed by SIGABRT");
    EXPECT_THAT(failure.action, HasSubstr("ended in the same way as it started"));
    EXPECT_EQ(watcher_.restarts, 1);
  }
}

TEST_F(LocalLauncher, AJobFileThatIsWrongForOneIsWrongForAll) {
  spec_.max_restarts = 100;
  const auto failure = run_to_failure("exit_before_join", 1);
  EXPECT_EQ(failure.reason, "exit status 2");
  EXPECT_EQ(watcher_.restarts, 0);
}

TEST_F(LocalLauncher, WhatTheHostLacksForOneItLacksForItsSuccessor) {
  spec_.max_restarts = 100;
  const auto failure = run_to_failure("exit3_before_join", 1);
  EXPECT_EQ(failure.reason, "exit status 3");
  EXPECT_EQ(failure.error.code, ErrorCode::kUnavailable)
      << "by which the job's exit code is chosen";
  EXPECT_EQ(watcher_.restarts, 0);
}

TEST_F(LocalLauncher, APlaceWhereWorkersNeverStartIsDoneWithout) {
  spec_.max_restarts = 100;
  watcher_.stops_at = -1;
  spec_.min_workers = 2;
  watcher_.then = [](Watcher&) { std::raise(SIGTERM); };
  const auto end = run("killed_before_join", 1);
  EXPECT_FALSE(end.failure) << describe(*end.failure);
  EXPECT_EQ(watcher_.welcome.members.size(), 2U);
  EXPECT_EQ(watcher_.restarts, 3);
  EXPECT_THAT(watcher_.losses.back(),
              HasSubstr("2 other workers are left, which begin without it"));
  EXPECT_FALSE(watcher_.regroups.back());
  spec_.min_workers = 3;
  const auto failure = run_to_failure("killed_before_join", 1);
  EXPECT_EQ(failure.rank, Rank{1});
  EXPECT_EQ(failure.reason, "killed by SIGKILL");
}

TEST_F(LocalLauncher, WhoDoesNotJoinInTimeIsDoneWithout) {
  spec_.max_restarts = 100;
  watcher_.stops_at = -1;
  spec_.min_workers = 2;
  spec_.join_timeout = kToStart;
  watcher_.then = [](Watcher&) { std::raise(SIGTERM); };
  const auto end = run("never_join", 1);
  EXPECT_FALSE(end.failure) << describe(*end.failure);
  EXPECT_EQ(watcher_.welcome.members.size(), 2U);
  EXPECT_EQ(watcher_.restarts, 0);
}

TEST_F(LocalLauncher, AMissingProgramIsAnErrorAndNothingStarts) {
  spec_.command = {"/nowhere/worker"};
  const auto end = create_local_launcher(system_processes(), system_files(), create_null_logger())
                       ->run(spec_, watcher_);
  ASSERT_FALSE(end);
  EXPECT_THAT(end.error().message, HasSubstr("/nowhere/worker"));
}

TEST_F(LocalLauncher, ItsDeathTakesTheWorkersAlong) {
  auto launcher =
      system_processes().spawn({{MUSTER_PROCS_LAUNCHER, MUSTER_PROCS_WORKER}, {}, {}, {}}).value();
  std::string text;
  while (text.find('\n') == std::string::npos) {
    const auto more = net::read_available(launcher->output_fd());
    ASSERT_TRUE(more) << "the launcher ended early";
    text += *more;
    pause(system_clock(), std::chrono::milliseconds(1));
  }
  std::istringstream pids(text);
  std::vector<int> workers{std::istream_iterator<int>(pids), {}};
  ASSERT_EQ(workers.size(), 3u);
  for (const int pid : workers) EXPECT_FALSE(is_gone(pid));
  ::kill(launcher->pid(), SIGKILL);
  const Deadline deadline = muster::testing::soon();
  const auto all_gone = [&] { return std::all_of(workers.begin(), workers.end(), is_gone); };
  while (!all_gone() && !deadline.passed(system_clock()))
    pause(system_clock(), std::chrono::milliseconds(10));
  EXPECT_TRUE(all_gone());
}

}  // namespace
}  // namespace muster::cluster
