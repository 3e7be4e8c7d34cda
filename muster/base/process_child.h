#pragma once
// The child's side of starting a process: what happens between fork and exec, where only
// async-signal-safe calls are allowed. Everything is prepared before the fork. For process.cc.

#include <sched.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/process.h"

namespace muster {

enum class ChildStage : std::int32_t { kParentGone, kFolder, kCores, kOutput, kExec };
std::string_view to_string(ChildStage stage) noexcept;

// Sent to the parent through a pipe that exec closes.
struct ChildFailure {
  ChildStage stage = ChildStage::kExec;
  std::int32_t number = 0;  // errno
};

class ChildPlan {
 public:
  // `input` -1: an empty one.
  ChildPlan(const ProcessSpec& spec, std::vector<std::string> environment, int input, int output,
            int error, int report);
  ChildPlan(const ChildPlan&) = delete;
  ChildPlan& operator=(const ChildPlan&) = delete;

  // Becomes the program or ends. In the child only.
  [[noreturn]] void become() const noexcept;

 private:
  [[noreturn]] void give_up(ChildStage stage) const noexcept;
  void die_with_parent() const noexcept;
  void take_signals() const noexcept;
  void take_cores() const noexcept;
  void take_streams() const noexcept;

  std::vector<std::string> command_, environment_;
  std::vector<char*> arguments_, variables_;  // into the two above, ended by a null pointer
  std::string folder_;
  cpu_set_t cores_;
  bool pinned_;
  sigset_t held_;
  int input_, output_, error_, report_;
  int parent_;
};

}  // namespace muster
