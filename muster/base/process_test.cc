#include "muster/base/process.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "muster/testing/memory_files.h"
#include "muster/testing/temp_folder.h"

namespace muster {
namespace {

constexpr int kPatienceMs = 60'000;

std::unique_ptr<Process> shell(const std::string& script, ProcessSpec spec = {}) {
  spec.command = {"/bin/sh", "-c", script};
  auto process = system_processes().spawn(spec);
  EXPECT_TRUE(process) << process.error().message;
  return process ? std::move(*process) : nullptr;
}

ProcessEnd wait_for(Process& process) {
  pollfd wait{process.end_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, kPatienceMs), 1);
  const auto end = process.poll();
  EXPECT_TRUE(end);
  return end.value_or(ProcessEnd{});
}

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

// True once no process has this number any more.
bool vanishes(int pid) {
  for (int i = 0; i < kPatienceMs / 10; ++i) {
    if (::kill(pid, 0) != 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(Process, TellsHowItEnded) {
  EXPECT_EQ(describe(wait_for(*shell("exit 0"))), "exit status 0");
  EXPECT_EQ(describe(wait_for(*shell("exit 3"))), "exit status 3");
  EXPECT_EQ(describe(wait_for(*shell("kill -KILL $$"))), "killed by SIGKILL");
}

TEST(Process, LetsSignalsBeWhatProgramsExpectThatItsParentIgnores) {
  for (const int number : {SIGPIPE, SIGXFSZ}) {
    const auto before = std::signal(number, SIG_IGN);
    const auto process = shell(fmt::format("kill -{} $$", number));
    EXPECT_EQ(wait_for(*process).signal, number);
    std::signal(number, before);
  }
}

TEST(Process, SeparatesOutputFromErrors) {
  const auto process = shell("echo out; echo err >&2; cat");
  EXPECT_EQ(read_all(process->output_fd()), "out\n");  // cat ends: there is no input
  EXPECT_EQ(read_all(process->error_fd()), "err\n");
}

TEST(Process, TakesEnvironmentFolderAndCores) {
  const testing::TempFolder folder;
  ProcessSpec spec;
  spec.environment = {{"MUSTER_ONE", "1 = 1"}, {"HOME", "/nowhere"}};
  spec.folder = folder.path();
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int core = 0;
  while (!CPU_ISSET(core, &allowed)) ++core;
  spec.cores = {core};
  const auto process =
      shell("echo $MUSTER_ONE; echo $HOME; pwd -P; grep Cpus_allowed_list /proc/self/status", spec);
  EXPECT_EQ(read_all(process->output_fd()),
            "1 = 1\n/nowhere\n" + std::filesystem::canonical(folder.path()).native() +
                "\nCpus_allowed_list:\t" + std::to_string(core) + "\n");
}

TEST(Process, ReportsWhatCannotStart) {
  const auto missing = system_processes().spawn({{"/no/such/program"}, {}, {}, {}});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find("/no/such/program"), std::string::npos);
  const auto folder = system_processes().spawn({{"/bin/true"}, {}, "/no/such/folder", {}});
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, ErrorCode::kUnavailable) << "the program is there";
  EXPECT_NE(folder.error().message.find("/no/such/folder"), std::string::npos);
  EXPECT_FALSE(system_processes().spawn({}));
}

TEST(Process, SignalsTheWholeGroup) {
  const auto process = shell("sleep 1000 & echo $!; wait");
  std::string line;
  for (char c = 0; ::read(process->output_fd(), &c, 1) == 1 && c != '\n';) line += c;
  ASSERT_TRUE(process->signal(SIGTERM));
  EXPECT_EQ(describe(wait_for(*process)), "killed by SIGTERM");
  EXPECT_TRUE(vanishes(std::stoi(line)));
  EXPECT_TRUE(process->signal(SIGTERM)) << "nobody is left, which is fine";
}

TEST(Process, HoldsSignalsUntilTheProgramReleasesThem) {
  ProcessSpec spec;
  spec.held_signals = {SIGTERM};
  const auto held = shell("kill -TERM $$; echo alive; read -r line; kill -HUP $$", spec);
  EXPECT_EQ(read_all(held->output_fd()), "alive\n");
  EXPECT_EQ(describe(wait_for(*held)), "killed by SIGHUP");
  // As the program sees it: what has waited arrives.
  sigset_t term, before;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGUSR1);
  static std::atomic<int> arrived = 0;
  const auto old = std::signal(SIGUSR1, [](int) { ++arrived; });
  ::pthread_sigmask(SIG_BLOCK, &term, &before);
  ASSERT_EQ(::pthread_kill(::pthread_self(), SIGUSR1), 0);
  EXPECT_EQ(arrived, 0);
  release_signals({SIGUSR1});
  EXPECT_EQ(arrived, 1);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::signal(SIGUSR1, old);
}

TEST(Process, WaitsForASignalThatItHolds) {
  sigset_t held, before;
  ::sigemptyset(&held);
  ::sigaddset(&held, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &held, &before);
  ASSERT_EQ(::pthread_kill(::pthread_self(), SIGUSR1), 0);
  wait_for_signal(SIGUSR1);
  sigset_t pending;
  ::sigpending(&pending);
  EXPECT_EQ(::sigismember(&pending, SIGUSR1), 0);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(Process, ReadsItsInputAndThenWaitsForTheEndOfIt) {
  const auto none = shell("cat; echo over");
  EXPECT_EQ(read_all(none->output_fd()), "over\n");
  ProcessSpec spec;
  spec.input = "first\nsecond\n";
  auto process =
      shell("read -r a; read -r b; echo $b $a; read -r c || echo over > /dev/stderr", spec);
  std::string line;
  for (char c = 0; ::read(process->output_fd(), &c, 1) == 1 && c != '\n';) line += c;
  EXPECT_EQ(line, "second first");
  EXPECT_FALSE(process->poll()) << "its input has not ended";
  spec.input = std::string(100'000, 'x');
  spec.command = {"/bin/cat"};
  const auto refused = system_processes().spawn(spec);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
}

TEST(Process, LeavesNothingOfItsGroupBehind) {
  const auto process = shell("sleep 1000 & echo $!");
  std::string line;
  for (char c = 0; ::read(process->output_fd(), &c, 1) == 1 && c != '\n';) line += c;
  wait_for(*process);
  EXPECT_TRUE(vanishes(std::stoi(line)));
}

TEST(Process, IsKilledWhenNobodyHoldsItAnyMore) {
  auto process = shell("sleep 1000");
  const int pid = process->pid();
  process.reset();
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST(Process, DiesWithItsParent) {
  std::unique_ptr<Process> process;
  std::thread([&] { process = shell("sleep 1000"); }).join();
  // The kernel counts the thread that forked as the parent; its end stands for the process's.
  EXPECT_EQ(describe(wait_for(*process)), "killed by SIGKILL");
}

TEST(DescribeProcess, SaysInWhichStateItIs) {
  testing::MemoryFiles files;
  ASSERT_TRUE(files.create_folders("/proc/41"));
  ASSERT_TRUE(write_atomically(files, "/proc/41/stat", "41 (odd) name) T 1 2 3"));
  EXPECT_EQ(describe_process(41, files), "its process is stopped (SIGSTOP)");
  EXPECT_EQ(describe_process(42, files), "its process is gone");
}

TEST(DescribeThread, SaysInWhichStateItIs) {
  testing::MemoryFiles files;
  ASSERT_TRUE(files.create_folders("/proc/self/task/43"));
  ASSERT_TRUE(write_atomically(files, "/proc/self/task/43/stat", "43 (muster) t 1 2 3"));
  EXPECT_EQ(describe_thread(43, files), "it is held by a debugger");
  EXPECT_EQ(describe_thread(44, files), "it is gone");
}

TEST(IsEnding, SaysSoOfOneThatTheSystemEnds) {
  testing::MemoryFiles files;
  ASSERT_TRUE(files.create_folders("/proc/41"));
  const auto ends = [&](const std::string& stat, const std::string& status) {
    EXPECT_TRUE(write_atomically(files, "/proc/41/stat", "41 (odd) Z 4) " + stat));
    EXPECT_TRUE(write_atomically(files, "/proc/41/status", "Name:\todd\n" + status));
    return is_ending(41, files);
  };
  const std::string none = "SigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n";
  EXPECT_FALSE(ends("S 1 41 41 0 -1 4194304 90", none)) << "asleep";
  EXPECT_FALSE(ends("T 1 41 41 0 -1 4194304 90", "SigPnd:\t0\nShdPnd:\t0000000000004000\n"))
      << "stopped, and SIGTERM has come";
  EXPECT_FALSE(ends("", ""));
  EXPECT_TRUE(ends("Z 1 41 41 0 -1 4194304 90", none));
  EXPECT_TRUE(ends("R 1 41 41 0 -1 4194308 90", none)) << "it exits";
  EXPECT_TRUE(ends("D 1 41 41 0 -1 4194304 90", "SigPnd:\t0\nShdPnd:\t0000000000000100\n"))
      << "SIGKILL has come, and a disk holds it";
  EXPECT_TRUE(ends("D 1 41 41 0 -1 4194304 90", "SigPnd:\t0000000000000100\nShdPnd:\t0\n"));
  EXPECT_FALSE(is_ending(42, files));
}

TEST(IsEnding, HoldsUntilItIsReaped) {
  const auto process = shell("sleep 1000");
  EXPECT_FALSE(is_ending(process->pid()));
  ASSERT_TRUE(process->signal(SIGKILL));
  pollfd wait{process->end_fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&wait, 1, kPatienceMs), 1);
  EXPECT_TRUE(is_ending(process->pid()));
  EXPECT_EQ(describe(wait_for(*process)), "killed by SIGKILL");
  EXPECT_FALSE(is_ending(process->pid()));
}

}  // namespace
}  // namespace muster
