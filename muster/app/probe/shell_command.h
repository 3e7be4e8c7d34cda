#pragma once
// A command of the shell, run to its end or to its deadline.

#include <map>
#include <optional>
#include <stop_token>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/process.h"
#include "muster/base/result.h"

namespace muster::app {

struct ShellCommand {
  std::string command;
  std::map<std::string, std::string> environment = {};  // added to this process's
  Duration limit = std::chrono::seconds(5);             // after which it is killed
};

struct ShellEnd {
  ProcessEnd end;
  std::string output;
  std::string said;  // on standard error
};

// Blocks; what the command leaves running in its process group is killed. Nothing: told to stop.
// kTimeout: the limit is over, and it was killed.
Result<std::optional<ShellEnd>> run_shell(const ShellCommand& command, Processes& processes,
                                          const std::stop_token& stop);

// Until the time is over, or it is told to stop.
void pause_unless_stopped(const std::stop_token& stop, Duration time);

}  // namespace muster::app
