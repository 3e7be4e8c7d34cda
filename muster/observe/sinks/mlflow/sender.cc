#include "muster/observe/sinks/mlflow/sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "muster/base/shell_words.h"
#include "muster/base/units.h"

namespace muster::observe::mlflow {
namespace {

constexpr Duration kIdle = std::chrono::minutes(1);            // an idle thread looks again
constexpr Duration kToldAgain = std::chrono::minutes(10);      // that the server is away
constexpr Duration kUntilAnnounced = std::chrono::seconds(2);  // people wonder why it does not end
constexpr Duration kLetGo = std::chrono::seconds(2);           // a request that was stopped

}  // namespace

Sender::Sender(std::unique_ptr<MlflowServer> server, MlflowRun run, Files& files, Clock& clock,
               std::function<void(Notice)> tell, const MlflowLimits& limits)
    : server_(std::move(server)),
      run_(std::move(run)),
      files_(files),
      clock_(clock),
      limits_(limits),
      backlog_(limits.kept),
      tell_(std::move(tell)),
      there_(*server_, run_, files, [this](Severity severity, std::string text) {
        this->tell(severity, std::move(text));
      }) {}

void Sender::tell(Severity severity, std::string text) {
  const std::lock_guard lock(tell_mutex_);
  if (tell_) tell_({severity, std::move(text)});
}

void Sender::take(const RunStarted& /*started*/) {
  const std::lock_guard lock(mutex_);
  if (start_) return;
  start_ = clock_.wall();
  changed_.notify_all();
}

void Sender::take(const Metrics& row) {
  const std::lock_guard lock(mutex_);
  if (!row.is_evaluation()) {
    supersede(row);
    if (to_int(row.step) % run_.every != 0) return skipped_.push_back(row);
    send_skipped();
  }
  backlog_.add(row);
  changed_.notify_all();
}

// Of what comes with some steps only, as memory, the newest stays, wherever it fell.
void Sender::supersede(const Metrics& row) {
  if (skipped_.empty()) return;
  std::set<std::string_view> names;
  for (const Metric& metric : row.values) names.insert(metric.name);
  for (Metrics& older : skipped_)
    std::erase_if(older.values, [&names](const Metric& one) { return names.contains(one.name); });
  std::erase_if(skipped_, [](const Metrics& older) { return older.values.empty(); });
}

void Sender::send_skipped() {
  for (const Metrics& row : skipped_) backlog_.add(row);
  skipped_.clear();
}

// The last step, wherever it fell, and the most memory, which only the end knows.
void Sender::take(const RunEnded& ended) {
  const std::lock_guard lock(mutex_);
  send_skipped();
  for (const Metric& result : ended.results) {
    if (result.name != metric::kPeakRss) continue;
    Metrics row;
    row.step = ended.step;
    row.time = clock_.wall();
    row.values = {result};
    backlog_.add(row);
  }
  changed_.notify_all();
}

Sender::Next Sender::next() const {
  if (!start_) return Next::kNothing;
  if (!there_.has_begun()) return Next::kBegin;
  if (!batch_.empty() || !backlog_.empty()) return Next::kMetrics;
  if (!ending_) return Next::kNothing;
  return ending_->artifacts.empty() ? Next::kEnd : Next::kArtifact;
}

TimePoint Sender::due(Next what) const {
  if (what == Next::kNothing) return clock_.now() + kIdle;
  if (away_) return tried_ + (ending_ ? std::min(pause_, limits_.first_pause) : pause_);
  const bool is_full = backlog_.numbers() >= kMetricsAtOnce;
  if (what == Next::kMetrics && !ending_ && !is_full) return sent_ + limits_.gather;
  return clock_.now();
}

void Sender::fill_batch() {
  const std::size_t before = backlog_.numbers();
  batch_ = backlog_.take(kMetricsAtOnce);
  in_flight_ = before - backlog_.numbers();
}

// What an earlier start of the run has left. The file stays until the end, which replaces or
// removes it: a launcher may be killed before. Whoever publishes must not wait for it.
void Sender::take_unsent(std::unique_lock<std::mutex>& lock) {
  if (!start_ || std::exchange(has_taken_unsent_, true) || run_.unsent.empty()) return;
  lock.unlock();
  const auto left = read_unsent(files_, run_.unsent);
  const bool is_damaged = !left && left.error().code != ErrorCode::kNotFound;
  if (is_damaged) tell(Severity::kWarning, left.error().message);
  lock.lock();
  if (!left) return;
  for (const Metrics& row : left->rows) backlog_.add(row);
}

void Sender::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_ && !refused_ && !ended_) {
    take_unsent(lock);
    const Next what = next();
    if (what == Next::kNothing && ending_) break;  // the run never began
    if (const TimePoint at = due(what); at > clock_.now()) {
      clock_.wait_until(lock, changed_, at);
      continue;
    }
    if (what == Next::kMetrics && batch_.empty()) fill_batch();
    const WallTime start = *start_;
    const Ending ending = ending_.value_or(Ending{});
    lock.unlock();
    const Status outcome = perform(what, start, ending);
    lock.lock();
    if (stopping_) break;  // that is why
    settle(what, outcome);
    lock.unlock();
    tell_of(what, outcome);
    lock.lock();
  }
  gone_ = true;
  changed_.notify_all();
}

Status Sender::perform(Next what, WallTime start, const Ending& ending) {
  switch (what) {
    case Next::kNothing:
      break;
    case Next::kBegin:
      return there_.begin(start);
    case Next::kMetrics:
      return there_.send(batch_);
    case Next::kArtifact:
      return there_.put(ending.artifacts.front());
    case Next::kEnd:
      return there_.end(ending.state, ending.at);
  }
  return ok();
}

void Sender::settle(Next what, const Status& outcome) {
  tried_ = clock_.now();
  if (!outcome && outcome.error().code == ErrorCode::kUnavailable) {
    away_ = outcome.error();
    pause_ =
        pause_ == Duration{0} ? limits_.first_pause : std::min(2 * pause_, limits_.longest_pause);
    return;
  }
  away_.reset();
  pause_ = Duration{0};
  progress_ = tried_;
  if (outcome || what == Next::kArtifact) return settle_done(what);  // a file is not the run
  refused_ = true;
}

void Sender::settle_done(Next what) {
  if (what == Next::kMetrics) {
    batch_.clear();
    in_flight_ = 0;
    sent_ = tried_;
  }
  if (what == Next::kArtifact) ending_->artifacts.erase(ending_->artifacts.begin());
  if (what == Next::kEnd) ended_ = true;
  changed_.notify_all();
}

void Sender::tell_of(Next what, const Status& outcome) {
  if (outcome) return tell_there();
  const std::string& why = outcome.error().message;
  if (outcome.error().code == ErrorCode::kUnavailable) return tell_away(outcome.error());
  if (what == Next::kArtifact) return tell(Severity::kWarning, why + "; the run's folder has it");
  tell(Severity::kWarning,
       fmt::format("{}. Nothing more of this run is sent there while it trains; the training goes "
                   "on, and {} has its numbers",
                   why, (run_.record.parent_path() / "metrics.jsonl").string()));
}

void Sender::tell_away(const Error& why) {
  const TimePoint now = clock_.now();
  if (is_told_away_ || (told_away_ && now - *told_away_ < kToldAgain)) return;
  told_away_ = now;
  is_told_away_ = true;
  tell(Severity::kWarning,
       why.message +
           "; the training goes on, and what is measured is kept and sent once it is there");
}

void Sender::tell_there() {
  if (std::exchange(is_told_away_, false))
    tell(Severity::kNote,
         fmt::format("MLflow at {} answers again, and gets what it has missed", run_.tracking_uri));
  if (there_.has_begun() && !std::exchange(told_page_, true))
    tell(Severity::kNote, "run in MLflow: " + there_.page());
}

void Sender::finish(Ending ending, Duration at_most) {
  std::unique_lock lock(mutex_);
  const TimePoint began = clock_.now();
  const TimePoint until = began + at_most;
  TimePoint announce = began + kUntilAnnounced;
  progress_ = began;
  ending_ = std::move(ending);
  changed_.notify_all();
  while (!gone_) {
    const TimePoint limit = std::min(until, progress_ + limits_.patience);
    const TimePoint now = clock_.now();
    if (now >= limit) break;
    if (now >= announce) {
      announce = until;
      const std::size_t left = waiting();
      lock.unlock();
      tell(Severity::kNote, fmt::format("sending what is left to MLflow: {}, for {} at most",
                                        counted(static_cast<std::int64_t>(left), "number"),
                                        format_duration(until - now)));
      lock.lock();
      continue;
    }
    clock_.wait_until(lock, changed_, std::min(limit, announce));
  }
}

bool Sender::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  server_->stop();
  std::unique_lock lock(mutex_);
  const TimePoint until = clock_.now() + kLetGo;
  while (!gone_ && clock_.wait_until(lock, changed_, until)) continue;
  return gone_;
}

void Sender::mute() {
  const std::lock_guard lock(tell_mutex_);
  tell_ = nullptr;
}

// A thread that is stuck in a request only reads its batch.
Unsent Sender::take_rest() {
  send_skipped();
  Unsent rest{.run = run_, .start = *start_, .ending = ending_, .rows = batch_};
  for (Metrics& row : backlog_.take(std::numeric_limits<std::size_t>::max()))
    rest.rows.push_back(std::move(row));
  return rest;
}

// Where it is, and what sends it; or why it is not kept.
std::string Sender::keep(const Unsent& unsent) {
  if (run_.unsent.empty()) return "";
  const Status kept = write_unsent(files_, run_.unsent, unsent);
  if (!kept)
    return fmt::format("it could not be kept to be sent later ({}), but ", kept.error().message);
  return fmt::format("{} keeps it, and `muster runs mlflow {}` sends it; ", run_.unsent.string(),
                     shell_quoted(run_.unsent.parent_path().string()));
}

void Sender::conclude() {
  std::unique_lock lock(mutex_);
  if (!start_) return;
  take_unsent(lock);
  const std::size_t lacking = waiting();
  const std::uint64_t left_out = backlog_.left_out();
  const bool is_whole = ended_ && lacking == 0;
  const std::string why = away_ ? away_->message : refused_ ? "it refused them" : "it is too slow";
  const Unsent rest = take_rest();
  lock.unlock();
  const std::string record = (run_.record.parent_path() / "metrics.jsonl").string();
  if (!is_whole)
    tell(Severity::kWarning,
         fmt::format("[mlflow] this run is not whole at {}: {} and how it ended did not get there "
                     "({}); {}{} has all",
                     run_.tracking_uri, counted(static_cast<std::int64_t>(lacking), "number"), why,
                     keep(rest), record));
  else if (!run_.unsent.empty())
    static_cast<void>(files_.remove_all(run_.unsent));
  if (left_out > 0)
    tell(Severity::kWarning,
         fmt::format("[mlflow] {} of this run were left out at {}, of every second step, since it "
                     "was away or too slow for long; {} has all",
                     counted(static_cast<std::int64_t>(left_out), "number"), run_.tracking_uri,
                     record));
}

}  // namespace muster::observe::mlflow
