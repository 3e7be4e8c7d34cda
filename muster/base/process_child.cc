#include "muster/base/process_child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace muster {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

std::string_view to_string(ChildStage stage) noexcept {
  switch (stage) {
    case ChildStage::kParentGone:
      return "prctl";
    case ChildStage::kFolder:
      return "chdir";
    case ChildStage::kCores:
      return "sched_setaffinity";
    case ChildStage::kOutput:
      return "dup2";
    case ChildStage::kExec:
      return "exec";
  }
  return "start";
}

ChildPlan::ChildPlan(const ProcessSpec& spec, std::vector<std::string> environment, int input,
                     int output, int error, int report)
    : command_(spec.command),
      environment_(std::move(environment)),
      arguments_(pointers(command_)),
      variables_(pointers(environment_)),
      folder_(spec.folder.native()),
      cores_{},
      pinned_(!spec.cores.empty()),
      held_{},
      input_(input),
      output_(output),
      error_(error),
      report_(report),
      parent_(::getpid()) {
  CPU_ZERO(&cores_);
  for (const int core : spec.cores) {
    if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &cores_);
  }
  ::sigemptyset(&held_);
  for (const int number : spec.held_signals) ::sigaddset(&held_, number);
}

void ChildPlan::become() const noexcept {
  die_with_parent();
  ::setpgid(0, 0);
  take_cores();
  take_streams();
  if (!folder_.empty() && ::chdir(folder_.c_str()) != 0) give_up(ChildStage::kFolder);
  take_signals();
  ::execvpe(arguments_[0], arguments_.data(), variables_.data());
  give_up(ChildStage::kExec);
}

void ChildPlan::give_up(ChildStage stage) const noexcept {
  const ChildFailure failure{stage, errno};
  // Nobody is left to tell when this fails.
  [[maybe_unused]] const ssize_t written = ::write(report_, &failure, sizeof failure);
  ::_exit(127);
}

void ChildPlan::die_with_parent() const noexcept {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up(ChildStage::kParentGone);
  if (::getppid() != parent_) ::_exit(127);  // it died before the call above
}

// Ignored and blocked signals survive exec: the program starts with those blocked that it releases.
void ChildPlan::take_signals() const noexcept {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ, SIGUSR1, SIGUSR2, SIGCHLD}) {
    ::signal(number, SIG_DFL);
  }
  ::sigprocmask(SIG_SETMASK, &held_, nullptr);
}

void ChildPlan::take_cores() const noexcept {
  if (pinned_ && ::sched_setaffinity(0, sizeof cores_, &cores_) != 0) give_up(ChildStage::kCores);
}

void ChildPlan::take_streams() const noexcept {
  const int input = input_ >= 0 ? input_ : ::open("/dev/null", O_RDONLY);
  if (input < 0 || ::dup2(input, STDIN_FILENO) < 0) give_up(ChildStage::kOutput);
  if (input > STDERR_FILENO) ::close(input);
  if (::dup2(output_, STDOUT_FILENO) < 0) give_up(ChildStage::kOutput);
  if (::dup2(error_, STDERR_FILENO) < 0) give_up(ChildStage::kOutput);
}

}  // namespace muster
