#include "muster/app/launch/worker_request.h"

#include <fmt/format.h>

#include <algorithm>
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

// Who comes was asked for first. How long a cluster's queue takes nobody knows: after the patience
// those that are missing are taken for lost.
std::int64_t WorkerRequest::coming(std::int64_t arrived) {
  if (failed_.exchange(false) && !calls_.empty()) calls_.pop_back();
  std::int64_t came = arrived - std::exchange(arrived_, arrived);
  std::int64_t missing = 0;
  for (Call& call : calls_) {
    const std::int64_t of_these = std::min(came, call.missing);
    came -= of_these;
    call.missing -= of_these;
  }
  std::erase_if(calls_, [this](const Call& call) {
    return call.missing == 0 || clock_.now() - call.at >= spec_.patience;
  });
  for (const Call& call : calls_) missing += call.missing;
  return missing;
}

bool WorkerRequest::ask(const cluster::WorkersWanted& workers) {
  if (running_ || clock_.now() < next_) return false;
  const std::int64_t more = workers.wanted - workers.present - coming(workers.arrived);
  if (more <= 0) return false;
  next_ = clock_.now() + spec_.gap;
  calls_.push_back({clock_.now(), more});
  running_ = true;
  thread_ = std::jthread([this, workers, more](const std::stop_token& stop) {
    run(stop, workers, more);
    running_ = false;
  });
  return true;
}

void WorkerRequest::run(const std::stop_token& stop, const cluster::WorkersWanted& workers,
                        std::int64_t more) {
  ShellCommand command{
      .command = spec_.command, .environment = spec_.environment, .limit = spec_.limit};
  command.environment["MUSTER_REQUEST_MORE"] = std::to_string(more);
  command.environment["MUSTER_REQUEST_PRESENT"] = std::to_string(workers.present);
  command.environment["MUSTER_REQUEST_WANTED"] = std::to_string(workers.wanted);
  const auto done = run_shell(command, processes_, stop);
  failed_ = !done || !*done || (*done)->end.exit_status != 0;
  if (!done) {
    log_->warn(
        "[autoscaling] autoscaling.request for {} workers: {}; it is killed, and asked "
        "again (autoscaling.request_timeout, request_every)",
        workers.wanted, done.error().message);
  } else if (*done) {
    const bool is_well = (*done)->end.exit_status == 0;
    log_->log(is_well ? spdlog::level::info : spdlog::level::warn,
              "[autoscaling] autoscaling.request for {} workers: {}; {}", workers.wanted,
              describe((*done)->end), written_by(**done));
  }
}

}  // namespace muster::app
