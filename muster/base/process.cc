#include "muster/base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>

#include "muster/base/exception_error.h"
#include "muster/base/process_child.h"
#include "muster/base/system_error.h"
#include "muster/base/unique_fd.h"

extern char** environ;

namespace muster {
namespace {

constexpr int kReapPatienceMs = 10'000;  // SIGKILL ends a child at once unless the disk hangs

Error process_error(std::string_view call, const ProcessSpec& spec, int number = errno) {
  return system_error(fmt::format("process/{}", call), spec.command.front(), number);
}

Error fork_error(const ProcessSpec& spec) {
  const int number = errno;
  Error error = process_error("fork", spec, number);
  if (number == EAGAIN) error.message += fmt::format("; {}", kRaiseProcessLimit);
  return error;
}

std::vector<std::string> environment_of(const ProcessSpec& spec) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!spec.environment.contains(std::string(text.substr(0, text.find('='))))) {
      entries.emplace_back(text);
    }
  }
  for (const auto& [name, value] : spec.environment) {
    entries.push_back(fmt::format("{}={}", name, value));
  }
  return entries;
}

class SystemProcess final : public Process {
 public:
  SystemProcess(int pid, UniqueFd end, UniqueFd input, UniqueFd output, UniqueFd error)
      : pid_(pid),
        end_(std::move(end)),
        input_(std::move(input)),
        output_(std::move(output)),
        error_(std::move(error)) {}
  SystemProcess(const SystemProcess&) = delete;
  SystemProcess& operator=(const SystemProcess&) = delete;

  ~SystemProcess() override {
    if (poll()) return;
    ::kill(-pid_, SIGKILL);
    pollfd wait{end_.get(), POLLIN, 0};
    while (::poll(&wait, 1, kReapPatienceMs) < 0 && errno == EINTR) {
    }
    poll();
  }

  int pid() const noexcept override { return pid_; }
  int end_fd() const noexcept override { return end_.get(); }
  int output_fd() const noexcept override { return output_.get(); }
  int error_fd() const noexcept override { return error_.get(); }

  Status signal(int number) override {
    const std::lock_guard lock(mutex_);
    if (end_state_) return ok();  // nobody is left, and the number may belong to a stranger by now
    if (::kill(-pid_, number) != 0) {
      return system_error("process/kill", fmt::format("pid {}", pid_), errno);
    }
    return ok();
  }

  std::optional<ProcessEnd> poll() override {
    const std::lock_guard lock(mutex_);
    if (end_state_) return end_state_;
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0) {
      return std::nullopt;
    }
    // The dead child still holds its number, so its group is still its own: what it left running
    // there goes with it.
    ::kill(-pid_, SIGKILL);
    rusage usage{};
    ::wait4(pid_, nullptr, WNOHANG, &usage);
    ProcessEnd& end = end_state_.emplace();
    (info.si_code == CLD_EXITED ? end.exit_status : end.signal) = info.si_status;
    end.peak_memory = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
    return end_state_;
  }

 private:
  const int pid_;
  const UniqueFd end_, input_, output_, error_;
  std::mutex mutex_;
  std::optional<ProcessEnd> end_state_;
};

struct Pipe {
  UniqueFd read, write;
};

Result<Pipe> create_pipe(const ProcessSpec& spec) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return process_error("pipe", spec);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// The child's standard input, filled before there is a child: nobody waits for one that does not
// read. Neither end where there is nothing to say.
Result<Pipe> create_input(const ProcessSpec& spec) {
  constexpr std::size_t kMost = std::size_t{48} * 1024;
  if (!spec.input) return Pipe{};
  MUSTER_ASSIGN(Pipe input, create_pipe(spec));
  if (::fcntl(input.write.get(), F_SETFL, O_NONBLOCK) != 0) return process_error("fcntl", spec);
  const std::string_view text = *spec.input;
  if (text.size() <= kMost &&
      ::write(input.write.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()))
    return input;
  return fail(ErrorCode::kInvalid,
              fmt::format("[process] {} would be told {} bytes through its input, and it takes {} "
                          "at most",
                          spec.command.front(), text.size(), kMost));
}

// What the child could not do before it became the program; nothing when it became it.
std::optional<ChildFailure> read_failure(const UniqueFd& report) {
  ChildFailure failure;
  ssize_t got = 0;
  do {
    got = ::read(report.get(), &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof failure)) return failure;
  return std::nullopt;
}

// Only of a program it is kNotFound: who started it may then say where programs are looked for.
Error child_error(const ProcessSpec& spec, const ChildFailure& failure) {
  if (failure.stage == ChildStage::kExec)
    return process_error(to_string(failure.stage), spec, failure.number);
  Error error = failure.stage == ChildStage::kFolder
                    ? system_error("process/chdir", spec.folder.native(), failure.number)
                    : process_error(to_string(failure.stage), spec, failure.number);
  if (error.code == ErrorCode::kNotFound) error.code = ErrorCode::kUnavailable;
  return error;
}

// Forks with every signal blocked, so that no handler of the parent runs in the child.
pid_t fork_quietly() {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  const int number = errno;
  if (pid != 0) ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = number;
  return pid;
}

class SystemProcesses final : public Processes {
 public:
  Result<std::unique_ptr<Process>> spawn(const ProcessSpec& spec) override {
    if (spec.command.empty()) return fail(ErrorCode::kInvalid, "[process] the command is empty");
    MUSTER_ASSIGN(Pipe input, create_input(spec));
    MUSTER_ASSIGN(Pipe output, create_pipe(spec));
    MUSTER_ASSIGN(Pipe error, create_pipe(spec));
    MUSTER_ASSIGN(Pipe report, create_pipe(spec));
    const ChildPlan plan(spec, environment_of(spec), input.read.get(), output.write.get(),
                         error.write.get(), report.write.get());
    const pid_t pid = fork_quietly();
    if (pid < 0) return fork_error(spec);
    if (pid == 0) plan.become();
    // The child does the same; whichever comes first, the group exists before anybody signals it.
    ::setpgid(pid, pid);
    UniqueFd end(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    const int pidfd_errno = errno;
    report.write.reset();
    auto process = std::make_unique<SystemProcess>(pid, std::move(end), std::move(input.write),
                                                   std::move(output.read), std::move(error.read));
    if (const auto failure = read_failure(report.read)) return child_error(spec, *failure);
    if (process->end_fd() < 0) return process_error("pidfd_open", spec, pidfd_errno);
    return process;
  }
};

// Of /proc/PID/stat (proc(5)).
struct Stat {
  char state = '?';
  unsigned long flags = 0;
};

constexpr unsigned long kExiting = 0x4;  // PF_EXITING: set before it closes its files

// The name, which may hold anything, is the last that stands in parentheses.
Stat read_stat(const std::string& text) {
  Stat stat;
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return stat;
  std::istringstream rest(text.substr(name_end + 1));
  std::string parent, group, session, terminal, foreground;
  rest >> stat.state >> parent >> group >> session >> terminal >> foreground >> stat.flags;
  return stat;
}

std::string_view words_for(char state) {
  switch (state) {
    case 'T':
      return "is stopped (SIGSTOP)";
    case 't':
      return "is held by a debugger";
    case 'D':
      return "waits for a disk or a device";
    case 'Z':
      return "has ended";
    case 'R':
      return "is running";
    default:
      return "is asleep";
  }
}

// A line of /proc/PID/status: a mask of signals in hexadecimal.
bool is_kill_pending(const std::string& status, std::string_view field) {
  const std::size_t at = status.find(field);
  if (at == std::string::npos) return false;
  const auto mask = std::strtoull(status.c_str() + at + field.size(), nullptr, 16);
  return (mask >> (SIGKILL - 1) & 1) != 0;
}

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

}  // namespace

std::string describe_process(int pid, Files& files) {
  const auto text = files.read(fmt::format("/proc/{}/stat", pid));
  return fmt::format("its process {}", text ? words_for(read_stat(*text).state) : "is gone");
}

std::string describe_thread(int thread, Files& files) {
  const auto text = files.read(fmt::format("/proc/self/task/{}/stat", thread));
  return fmt::format("it {}", text ? words_for(read_stat(*text).state) : "is gone");
}

bool is_ending(int pid, Files& files) {
  const auto text = files.read(fmt::format("/proc/{}/stat", pid));
  if (!text) return false;
  const Stat stat = read_stat(*text);
  if (stat.state == 'Z' || stat.state == 'X' || (stat.flags & kExiting) != 0) return true;
  const auto status = files.read(fmt::format("/proc/{}/status", pid));
  return status && (is_kill_pending(*status, "SigPnd:") || is_kill_pending(*status, "ShdPnd:"));
}

void release_signals(const std::vector<int>& numbers) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : numbers) ::sigaddset(&set, number);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void wait_for_signal(int number) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, number);
  int arrived = 0;
  ::sigwait(&set, &arrived);
}

Path this_program() {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/exe", unknown);
}

Error become_program(std::vector<std::string> command) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  ::execvp(words.front(), words.data());
  return system_error("process/exec", command.front(), errno);
}

Status send_signal(int pid, int number) {
  if (pid > 0 && ::kill(pid, number) == 0) return ok();
  return system_error("process/kill", fmt::format("pid {}", pid), pid > 0 ? errno : ESRCH);
}

std::string describe(const ProcessEnd& end) {
  if (end.signal) return fmt::format("killed by {}", signal_name(*end.signal));
  return fmt::format("exit status {}", end.exit_status.value_or(0));
}

Processes& system_processes() noexcept {
  static SystemProcesses processes;
  return processes;
}

}  // namespace muster
