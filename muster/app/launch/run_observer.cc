#include "muster/app/launch/run_observer.h"

#include <fmt/format.h>

#include <csignal>
#include <utility>

#include "muster/observe/queued_sink.h"
#include "muster/observe/record_codec.h"
#include "muster/observe/sinks/jsonl/jsonl.h"

namespace muster::app {

using observe::Notice;
using observe::Severity;

RunObserver::RunObserver(observe::RunFolder folder, const observe::ConsoleOptions& console,
                         Files& files, Logger log)
    : folder_(std::move(folder)),
      files_(files),
      log_(std::move(log)),
      terminal_(observe::open_terminal(1)) {
  auto console_sink = observe::create_console_sink(*terminal_, system_clock(), console);
  subscriptions_.push_back(
      hub_.subscribe(observe::create_queued_sink(std::move(console_sink), system_clock())));
  subscribe_jsonl(files);
}

RunObserver::~RunObserver() = default;

void RunObserver::subscribe_jsonl(Files& files) {
  auto jsonl =
      observe::create_jsonl_sink(files, folder_.metrics(), [log = log_](const Error& error) {
        log->warn("metrics are no longer recorded: {}", error.message);
      });
  if (!jsonl) return log_->warn("metrics are not recorded: {}", jsonl.error().message);
  subscriptions_.push_back(
      hub_.subscribe(observe::create_queued_sink(std::move(*jsonl), system_clock())));
}

void RunObserver::notice(Severity severity, std::string text) {
  hub_.publish(Notice{severity, std::move(text)});
}

void RunObserver::on_report(Rank rank, const cluster::Bytes& content) {
  auto records = observe::decode(content);
  if (!records) {
    return notice(Severity::kWarning, fmt::format("rank {} sent a report that cannot be read: {}",
                                                  to_int(rank), records.error().message));
  }
  for (observe::Record& record : *records) {
    if (const auto* row = std::get_if<observe::Metrics>(&record)) last_step_ = row->step;
    if (auto* ended = std::get_if<observe::RunEnded>(&record)) {
      ended_ = std::move(*ended);  // shown once all workers are gone
    } else {
      hub_.publish(record);
    }
  }
}

// Workers' own lines are in their log files; what they write to standard error concerns people.
void RunObserver::on_line(Rank rank, bool is_error, std::string_view line) {
  if (is_error) notice(Severity::kNote, fmt::format("[rank{}] {}", to_int(rank), line));
}

void RunObserver::on_stop(int signal, cluster::StopReason reason) {
  const char* name = signal == SIGINT ? "Ctrl-C" : (signal == SIGTERM ? "SIGTERM" : "SIGUSR1");
  notice(Severity::kNote,
         reason == cluster::StopReason::kCheckpointAndExit
             ? fmt::format("{}: finishing the step, then a checkpoint; once more to leave at once",
                           name)
             : fmt::format("{} again: leaving at once", name));
}

void RunObserver::fail(const std::string& reason) { notice(Severity::kError, reason); }

void RunObserver::conclude(const cluster::JobEnd& end,
                           const std::optional<std::string>& resume_command) {
  observe::RunEnded ended = ended_.value_or(observe::RunEnded{});
  if (!ended_) ended.step = last_step_;
  if (end.failure) {
    ended.completed = false;
    ended.reason = fmt::format("rank {} {}", to_int(end.failure->rank), end.failure->reason);
    notice(Severity::kError, cluster::describe(*end.failure));
  } else if (end.signal && !ended_) {
    ended.completed = false;
    ended.reason = fmt::format("ended by signal {} before a checkpoint", *end.signal);
  }
  hub_.publish(ended);
  if (!ended.completed && resume_command) {
    notice(Severity::kNote, fmt::format("go on with: {}", *resume_command));
  }
  if (auto status = folder_.write_summary(files_, ended); !status) {
    log_->warn("{}", status.error().message);
  }
  subscriptions_.clear();  // everything is on the screen and on the disk from here
}

}  // namespace muster::app
