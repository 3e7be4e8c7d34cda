#include "muster/app/probe/shell_command.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>

#include "muster/net/loop.h"

namespace muster::app {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(10);

// What a child has written so far; false: it has closed the pipe.
bool read_more(int fd, std::string& into) {
  const auto piece = net::read_available(fd);
  if (piece) into += *piece;
  return piece.has_value();
}

}  // namespace

void pause_unless_stopped(const std::stop_token& stop, Duration time) {
  std::mutex mutex;
  std::condition_variable wake;
  const TimePoint until = system_clock().now() + time;
  const std::stop_callback on_stop(stop, [&] {
    const std::lock_guard lock(mutex);
    wake.notify_all();
  });
  std::unique_lock lock(mutex);
  while (!stop.stop_requested() && system_clock().wait_until(lock, wake, until)) continue;
}

Result<std::optional<ShellEnd>> run_shell(const ShellCommand& command, Processes& processes,
                                          const std::stop_token& stop) {
  MUSTER_ASSIGN(const auto child, processes.spawn({.command = {"/bin/sh", "-c", command.command},
                                                   .environment = command.environment,
                                                   .folder = {},
                                                   .cores = {}}));
  const Deadline deadline = Deadline::after(system_clock(), command.limit);
  ShellEnd done;
  bool open = true;
  std::optional<ProcessEnd> end;
  while (open || !end) {
    if (deadline.passed(system_clock()))
      return fail(ErrorCode::kTimeout,
                  fmt::format("command `{}` has not ended within {:.0f} s", command.command,
                              std::chrono::duration<double>(command.limit).count()));
    if (open) open = read_more(child->output_fd(), done.output);
    read_more(child->error_fd(), done.said);
    if (!end) end = child->poll();
    if (open || !end) pause_unless_stopped(stop, kLook);
    if (stop.stop_requested()) return std::optional<ShellEnd>();
  }
  done.end = *end;
  return std::optional(std::move(done));
}

}  // namespace muster::app
