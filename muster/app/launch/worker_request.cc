#include "muster/app/launch/worker_request.h"

#include <fmt/format.h>

#include <utility>

#include "muster/app/probe/shell_command.h"
#include "muster/base/trimmed.h"

namespace muster::app {
namespace {

constexpr std::size_t kShown = 500;  // bytes of what it wrote

std::string written_by(const ShellEnd& done) {
  const std::string all = done.output + done.said;
  const std::string_view text = trimmed(all, " \t\r\n");
  return text.empty() ? std::string("it wrote nothing")
                      : fmt::format("it wrote: {}", text.substr(0, kShown));
}

}  // namespace

WorkerRequest::WorkerRequest(WorkerRequestSpec spec, Clock& clock, Processes& processes, Logger log)
    : spec_(std::move(spec)), clock_(clock), processes_(processes), log_(std::move(log)) {}

bool WorkerRequest::ask(std::int32_t present, std::int32_t wanted) {
  if (running_ || clock_.now() < next_) return false;
  next_ = clock_.now() + spec_.gap;
  running_ = true;
  thread_ = std::jthread([this, present, wanted](const std::stop_token& stop) {
    run(stop, present, wanted);
    running_ = false;
  });
  return true;
}

void WorkerRequest::run(const std::stop_token& stop, std::int32_t present, std::int32_t wanted) {
  ShellCommand command{
      .command = spec_.command, .environment = spec_.environment, .limit = spec_.limit};
  command.environment["MUSTER_REQUEST_PRESENT"] = std::to_string(present);
  command.environment["MUSTER_REQUEST_WANTED"] = std::to_string(wanted);
  const auto done = run_shell(command, processes_, stop);
  if (!done) {
    log_->warn(
        "[autoscaling] autoscaling.request for {} workers: {}; it is killed, and asked "
        "again (autoscaling.request_timeout, request_every)",
        wanted, done.error().message);
  } else if (*done) {
    const bool is_well = (*done)->end.exit_status == 0;
    log_->log(is_well ? spdlog::level::info : spdlog::level::warn,
              "[autoscaling] autoscaling.request for {} workers: {}; {}", wanted,
              describe((*done)->end), written_by(**done));
  }
}

}  // namespace muster::app
