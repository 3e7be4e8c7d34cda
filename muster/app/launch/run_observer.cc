#include "muster/app/launch/run_observer.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "muster/app/debug/debug_report.h"
#include "muster/app/launch/mlflow_tracking.h"
#include "muster/base/units.h"
#include "muster/data/batch_advice.h"
#include "muster/observe/gib.h"
#include "muster/observe/queued_sink.h"
#include "muster/observe/record_codec.h"
#include "muster/observe/sinks/console/lines.h"

namespace muster::app {

using observe::Notice;
using observe::RecoveryPart;
using observe::Severity;

namespace {

constexpr Duration kHeldAtMost = std::chrono::seconds(5);
constexpr Duration kTrackedAtMost = std::chrono::minutes(2);
// Who signals kills what does not end, after 30 s on most clusters.
constexpr Duration kTrackedAfterSignal = std::chrono::seconds(10);

std::string_view signal_name(int signal) {
  switch (signal) {
    case SIGINT:
      return "Ctrl-C";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "SIGUSR1";
  }
}

observe::RunState state_of(const observe::RunEnded& ended, const cluster::JobEnd& end) {
  if (end.failure) return observe::RunState::kFailed;
  return ended.completed ? observe::RunState::kFinished : observe::RunState::kStopped;
}

std::string name_of(cluster::DumpOccasion occasion) {
  switch (occasion) {
    case cluster::DumpOccasion::kNoAnswer:
      return "a worker did not answer the others";
    case cluster::DumpOccasion::kFailure:
      return "the job failed";
    default:
      return std::string(kAskedFor);
  }
}

}  // namespace

RunObserver::RunObserver(observe::RunFolder folder, RunSinks sinks,
                         const observe::ConsoleOptions& console, Files& files, Logger log)
    : folder_(std::move(folder)),
      files_(files),
      log_(std::move(log)),
      terminal_(observe::open_terminal(1)),
      trace_(std::move(sinks.trace_path)),
      traced_(std::move(sinks.trace)),
      began_(system_clock().now()) {
  auto shown = observe::create_queued_sink(
      observe::create_console_sink(*terminal_, system_clock(), console), system_clock());
  if (console.format != observe::ConsoleFormat::kJson) {
    recoveries_ = std::make_shared<observe::Recoveries>(std::move(shown), system_clock());
    shown = recoveries_;
  }
  shown_ = hub_.subscribe(std::move(shown));
  for (auto& sink : sinks.kept) kept_.push_back(hub_.subscribe(std::move(sink)));
  live_.emplace(files, folder_.live(), system_clock());
}

RunObserver::~RunObserver() = default;

// There are many, and for nobody else: in the hub they would crowd out what is.
void RunObserver::trace(const observe::Record& record) {
  path_.add(std::get<observe::Span>(record));
  if (traced_) traced_->take(record);
}

void RunObserver::expose(std::shared_ptr<observe::PrometheusSink> numbers, const std::string& url) {
  numbers_ = std::move(numbers);
  numbered_ = hub_.subscribe(numbers_);
  tell(Severity::kNote, fmt::format("metrics for Prometheus: {}", url));
}

void RunObserver::track(std::shared_ptr<observe::MlflowSink> server) {
  tracked_ = std::move(server);
  tracking_ = hub_.subscribe(tracked_);
}

std::function<void(Notice)> RunObserver::teller() {
  return [this](Notice notice) { hub_.publish(std::move(notice)); };
}

void RunObserver::on_generation(const cluster::Welcome& generation) {
  if (numbers_) numbers_->set_workers(std::ssize(generation.members));
  if (live_) live_->set_members(generation.members);
  path_.enter(generation.generation, generation.members.size());
}

void RunObserver::on_progress(Rank rank, const cluster::Progress& progress) {
  tell_late();
  if (recoveries_) recoveries_->tell_late();
  if (live_) live_->note(to_int(rank), progress);
}

void RunObserver::tell(Severity severity, std::string text) {
  tell(Notice{severity, std::move(text)});
}

void RunObserver::tell(Notice notice) {
  if (notice.severity != Severity::kNote || !holds_notes_) {
    tell_held();
    return hub_.publish(std::move(notice));
  }
  held_notes_.push_back(std::move(notice));
  tell_late();
}

// What can wait comes after the run's first line, the headline. It cannot where somebody has to act
// or something went wrong, nor for longer than people wonder whether anything happens.
void RunObserver::tell_held() {
  holds_notes_ = false;
  for (Notice& notice : std::exchange(held_notes_, {})) hub_.publish(std::move(notice));
}

void RunObserver::tell_late() {
  if (holds_notes_ && system_clock().now() - began_ > kHeldAtMost) tell_held();
}

void RunObserver::on_report(Rank rank, const cluster::Bytes& content) {
  auto records = observe::decode(content);
  if (!records) {
    return tell(Severity::kWarning, fmt::format("rank {} sent a report that cannot be read: {}",
                                                to_int(rank), records.error().message));
  }
  for (observe::Record& record : *records) {
    if (is_told_already(record)) continue;
    if (const auto* row = std::get_if<observe::Metrics>(&record)) last_step_ = row->step;
    if (const auto* started = std::get_if<observe::RunStarted>(&record)) {
      libtorch_ = started->libtorch;
      last_step_ = started->first_step;
      total_steps_ = started->total_steps;
    }
    if (std::holds_alternative<observe::Span>(record)) {
      trace(record);
      continue;
    }
    if (auto* ended = std::get_if<observe::RunEnded>(&record)) {
      ended_ = std::move(*ended);  // shown once all workers are gone
    } else {
      hub_.publish(record);
      if (const auto* begun = std::get_if<observe::RunStarted>(&record)) tell_what_waits(*begun);
    }
  }
}

void RunObserver::tell_what_waits(const observe::RunStarted& started) {
  tell_held();
  const std::string advice = data::advice_on_batch(started.epoch_size, started.batch);
  if (!advice.empty()) tell(Severity::kWarning, advice);
}

// A first rank may die between telling of a step and the others' applying it, who then tell of the
// same numbers. Steps that are taken again after going back are committed again, but what they came
// to is told once.
bool RunObserver::is_told_already(const observe::Record& record) {
  const auto is_again = [](std::optional<Step>& told, Step step) {
    if (told && step <= *told) return true;
    told = step;
    return false;
  };
  if (const auto* row = std::get_if<observe::Metrics>(&record))
    return is_again(row->is_evaluation() ? told_evaluation_ : told_step_, row->step);
  if (std::holds_alternative<observe::RunStarted>(record)) return std::exchange(told_start_, true);
  if (const auto* back = std::get_if<observe::WentBack>(&record)) {
    const std::pair which(back->generation, back->rollbacks);
    if (which <= told_back_) return true;
    told_back_ = which;
    path_.go_back(back->to);
    tell_return(*back);
    if (told_commit_) told_commit_ = std::min(*told_commit_, back->to);
    return false;
  }
  const auto* committed = std::get_if<observe::StepCommitted>(&record);
  return committed != nullptr && is_again(told_commit_, committed->step);
}

// Who goes back may be new, and know nothing of the steps that are lost.
void RunObserver::tell_return(const observe::WentBack& back) {
  if (back.how.empty()) return;
  const Step from = std::max(back.from, told_commit_.value_or(Step{0}));
  const std::int64_t again = std::max<std::int64_t>(0, to_int(from) - to_int(back.to));
  tell({.text =
            fmt::format("{}; {} step{} taken again", back.how, again, again == 1 ? " is" : "s are"),
        .recovery = RecoveryPart{.turn = RecoveryPart::Turn::kWentBack}});
}

void RunObserver::on_loss(const cluster::JobFailure& loss, const cluster::Remainder& left) {
  Notice notice{Severity::kWarning, cluster::describe_loss(loss, left)};
  if (left.regroups)
    notice.recovery = RecoveryPart{.turn = RecoveryPart::Turn::kLost,
                                   .workers = {to_int(loss.rank)},
                                   .brief = cluster::describe_loss_briefly(loss, left)};
  tell(std::move(notice));
}

void RunObserver::on_waiting(std::int32_t others, std::int32_t own) {
  tell_held();
  tell(Severity::kNote,
       fmt::format(
           "waiting until {} more {} joined (workers.min_workers): from other hosts, besides "
           "{} of this one",
           others, others == 1 ? "has" : "have",
           own == 1 ? "worker 0" : fmt::format("workers 0 to {}", own - 1)));
}

void RunObserver::on_restart(Rank rank, int pid) {
  const std::string what = fmt::format("worker {} is started anew{}", to_int(rank),
                                       pid > 0 ? fmt::format(" (pid {})", pid) : "");
  tell({.text = what + " and joins when it is ready",
        .recovery = RecoveryPart{
            .turn = RecoveryPart::Turn::kStarted, .workers = {to_int(rank)}, .brief = what}});
}

void RunObserver::on_standby_moved(Rank rank, const std::string& host) {
  tell(Severity::kNote,
       fmt::format("worker {}, a standby, has gone as it was told to: another one is "
                   "started in its place on {}",
                   to_int(rank), host));
}

void RunObserver::on_distrust(Rank rank, const std::string& host) {
  tell(Severity::kWarning,
       fmt::format("worker {} is not started anew, nor is another one on {}: it is the second "
                   "one {} with wrong bits, so its memory or processor is faulty",
                   to_int(rank), host.empty() ? "this host" : host,
                   host.empty() ? "here" : "there"));
}

void RunObserver::on_listening(const net::Address& address) {
  tell(Severity::kNote, fmt::format("others join with: muster worker --join {} --credentials {}",
                                    to_string(address), folder_.join_key().native()));
}

void RunObserver::on_scale(std::int32_t from, const cluster::ScaleWish& to) {
  tell(Severity::kNote, fmt::format("from {} to {} workers: {}", from, to.workers, to.reason));
}

void RunObserver::on_request(std::int32_t present, const cluster::ScaleWish& to) {
  tell(Severity::kNote,
       fmt::format("from {} to {} workers, which autoscaling.request is to start: {}", present,
                   to.workers, to.reason));
}

void RunObserver::on_rest(const std::string& host, Duration left_alone) {
  tell(Severity::kNote, fmt::format("no worker has come up on {}: it is tried again after {}", host,
                                    format_duration(left_alone)));
}

void RunObserver::on_arrival(const cluster::WorkerInfo& elsewhere) {
  tell(Severity::kNote,
       fmt::format("worker {} of {} (pid {}) joins{}", elsewhere.worker, elsewhere.host,
                   elsewhere.pid, elsewhere.can_lead ? "" : "; it does not see the run's folder"));
}

void RunObserver::on_unreached(const cluster::WorkerInfo& newcomer,
                               const cluster::WorkerInfo& other, const std::string& why) {
  tell(Severity::kWarning,
       fmt::format("worker {} of {} (pid {}) is not let in yet: it and worker {} of {} ({}) do not "
                   "reach each other: {}",
                   newcomer.worker, newcomer.host, newcomer.pid, other.worker, other.host,
                   other.door, why));
}

void RunObserver::on_drain(Rank rank, cluster::Departure how) {
  constexpr std::string_view kHow[] = {
      " and leaves with the step", " and leaves once another one has the state, which it alone has",
      ", but too few would be left: all stop with a checkpoint"};
  tell(Severity::kNote, fmt::format("worker {} was told to go{}", to_int(rank),
                                    kHow[static_cast<std::size_t>(how)]));
}

void RunObserver::on_stay(Rank rank) {
  tell(Severity::kNote, fmt::format("worker {} stays, slow as it is: too few would be left without "
                                    "it (workers.min_workers)",
                                    to_int(rank)));
}

void RunObserver::on_dumps(const std::vector<cluster::WorkerState>& states,
                           cluster::DumpOccasion occasion) {
  const DebugReport report = make_debug_report(states, system_clock().wall(), name_of(occasion));
  if (auto status = write_atomically(files_, folder_.debug(), to_json(report)); !status)
    log_->warn("{}", status.error().message);
  const auto lines = conclusions(report);
  if (occasion == cluster::DumpOccasion::kFailure) {
    held_up_ = lines;
    return;
  }
  if (occasion == cluster::DumpOccasion::kAsked) return tell_of_asking();
  for (const std::string& line : lines) tell(Severity::kNote, line);
  tell(Severity::kNote, fmt::format("where every worker is: {}{}", folder_.debug().native(),
                                    lines.empty() ? "; no operation is held up" : ""));
}

// Whoever asks reads the answer there, and may ask every few seconds.
void RunObserver::tell_of_asking() {
  if (std::exchange(told_of_asking_, true)) return;
  tell(Severity::kNote,
       fmt::format("somebody asked where every worker is: {}; it is not told again",
                   folder_.debug().native()));
}

// Workers' own lines are in their log files; what they write to standard error concerns people. The
// error they end with is told once, as the job's, not by every rank that fell over it.
void RunObserver::on_line(Rank rank, bool is_error, std::string_view line) {
  if (!is_error || line.empty() || line.starts_with("[ERROR] ")) return;
  tell_held();  // it may be why nothing begins
  tell(Severity::kNote, fmt::format("[rank{}] {}", to_int(rank), line));
}

void RunObserver::on_stop(int signal, cluster::Stopping how) {
  const auto words = [how]() -> std::string_view {
    switch (how) {
      case cluster::Stopping::kAfterTheStep:
        return ": finishing the step, then a checkpoint; once more to leave at once";
      case cluster::Stopping::kAtOnce:
        return " again: leaving at once";
      case cluster::Stopping::kNothingBegun:
        break;
    }
    return ": nothing has begun yet; leaving at once";
  };
  insisted_ |= how == cluster::Stopping::kAtOnce;
  tell_held();
  tell(Severity::kNote, fmt::format("{}{}", signal_name(signal), words()));
}

void RunObserver::on_notice(const std::string& from, cluster::Stopping how) {
  noticed_ = true;
  tell_held();
  tell(Severity::kWarning,
       fmt::format(
           "pre-emption notice ({}): this host is wanted back, and muster train with it: {}", from,
           how == cluster::Stopping::kAfterTheStep ? "all stop after the step, with a checkpoint"
                                                   : "nothing has begun yet; leaving at once"));
}

Status RunObserver::end_showing() {
  recoveries_.reset();
  shown_.end();
  if (!terminal_->lost()) return ok();
  return muster::fail(
      ErrorCode::kUnavailable,
      fmt::format("[muster] standard output could not be written, its disk is full; "
                  "the run itself is whole: {}",
                  folder_.root().string()));
}

// A folder in which something has run before keeps what came of that.
void RunObserver::fail(const std::string& reason) {
  live_.reset();
  tell(Severity::kError, reason);
  kept_.clear();
  traced_.reset();
  if (tracked_) tracked_->finish(observe::RunState::kFailed, {}, kTrackedAfterSignal);
  if (files_.exists(folder_.summary())) return;
  observe::RunEnded ended;
  ended.completed = false;
  ended.reason = reason;
  ended.took = system_clock().now() - began_;
  if (auto status = folder_.write_summary(files_, ended, observe::RunState::kFailed); !status)
    log_->warn("{}", status.error().message);
}

observe::RunEnded RunObserver::end_of(const cluster::JobEnd& end) const {
  observe::RunEnded ended = ended_.value_or(observe::RunEnded{});
  if (!ended_) {  // the workers could not tell
    ended.step = last_step();
    ended.took = system_clock().now() - began_;
  }
  ended.critical_path = path_.summary();
  if (end.peak_memory > 0)
    ended.results.push_back(
        {std::string(observe::metric::kPeakRss), observe::to_gib(end.peak_memory)});
  if (end.failure) {
    ended.completed = false;
    const std::string& message = end.failure->error.message;
    ended.reason =
        message.empty() || message.ends_with(end.failure->reason) ? end.failure->reason : message;
    if (end.failure->rank != kNoRank)
      ended.reason = fmt::format("rank {}: {}", to_int(end.failure->rank), ended.reason);
  } else if (end.signal && !ended_) {
    ended.completed = false;
    ended.reason = fmt::format("{}{}, left without a last checkpoint",
                               noticed_ ? "pre-emption notice" : signal_name(*end.signal),
                               insisted_ ? " twice" : "");
  }
  return ended;
}

void RunObserver::conclude(const cluster::JobEnd& end, const std::string& failure) {
  live_.reset();
  const observe::RunEnded ended = end_of(end);
  tell_held();
  if (end.failure) tell(Severity::kError, failure);
  if (end.failure && end.failure->error.code == ErrorCode::kTimeout) {
    for (const std::string& line : held_up_) tell(Severity::kError, line);
    tell(Severity::kNote,
         fmt::format("where every worker was: muster debug {}", folder_.root().native()));
  }
  hub_.publish(ended);
  if (auto status = folder_.write_summary(files_, ended, state_of(ended, end)); !status) {
    log_->warn("{}", status.error().message);
  }
  kept_.clear();
  traced_.reset();
}

void RunObserver::end_tracking(const cluster::JobEnd& end) {
  if (!tracked_) return;
  tracked_->finish(state_of(end_of(end), end), mlflow_artifacts(files_, folder_),
                   end.stop_asked ? kTrackedAfterSignal : kTrackedAtMost);
}

void RunObserver::tell_report() { tell_result("report", folder_.report().native()); }

void RunObserver::tell_trace() {
  if (trace_)
    tell_result("trace", fmt::format("{} (open it at https://ui.perfetto.dev)", trace_->native()));
}

void RunObserver::tell_result(std::string_view name, std::string_view value) {
  std::string line = observe::result_line(name, value);
  line.pop_back();
  tell(Severity::kNote, std::move(line));
}

}  // namespace muster::app
