#include "muster/observe/critical_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <ranges>
#include <set>

#include "muster/base/units.h"

namespace muster::observe {
namespace {

constexpr std::string_view kWholeStep = "step";
constexpr std::size_t kMostOpen = 64;   // steps of which some worker has not told
constexpr std::size_t kMostShares = 5;  // told to a person

// What one worker did in a step.
struct Doings {
  std::vector<const Span*> phases;              // by their beginning
  std::vector<const Span*> passes, operations;  // by their end
};

TimePoint begin_of(const Span* span) { return span->begin; }
TimePoint end_of(const Span* span) { return span->end(); }

// The last one that `key` puts before `at`, or at it.
const Span* last_before(const std::vector<const Span*>& spans, TimePoint (*key)(const Span*),
                        TimePoint at) {
  const auto after = std::ranges::upper_bound(spans, at, {}, key);
  return after == spans.begin() ? nullptr : *std::prev(after);
}

// Back through a step, from whoever ended last to its beginning at whoever the path leads to.
class Walk {
 public:
  using Shares = std::map<std::pair<std::string, std::int32_t>, Duration>;

  Walk(const std::vector<Span>& spans, Shares& shares) : shares_(shares) {
    for (const Span& span : spans) note(span);
    for (auto& [worker, doings] : by_worker_) {
      std::ranges::sort(doings.phases, {}, begin_of);
      std::ranges::sort(doings.passes, {}, end_of);
      std::ranges::sort(doings.operations, {}, end_of);
    }
  }

  void run() {
    worker_ = last_->worker;
    at_ = last_->end();
    while (const Span* phase = phase_here()) through(*phase);
  }

 private:
  static constexpr std::int32_t kAll = -1;
  using Operation = std::pair<Generation, std::uint64_t>;

  void note(const Span& span) {
    Doings& doings = by_worker_[span.worker];
    if (span.track == Track::kSteps) {
      if (last_ == nullptr || span.end() > last_->end()) last_ = &span;
    } else if (span.track == Track::kPhases) {
      doings.phases.push_back(&span);
    } else if (span.track == Track::kLane) {
      doings.passes.push_back(&span);
    } else {
      doings.operations.push_back(&span);
      if (!span.number) return;
      const Span*& last = last_to_submit_[{span.generation, *span.number}];
      if (last == nullptr || span.begin > last->begin) last = &span;
    }
  }

  const Span* phase_here() {
    return last_before(by_worker_[worker_].phases, begin_of, before(at_));
  }

  // What ended last, within the phase, before now. An operation is waited for from when there was
  // nothing left to compute.
  void through(const Span& phase) {
    const Doings& mine = by_worker_[worker_];
    const Span* pass = last_before(mine.passes, end_of, at_);
    const Span* operation = last_before(mine.operations, end_of, at_);
    const TimePoint computed = pass == nullptr ? phase.begin : std::max(pass->end(), phase.begin);
    if (operation != nullptr && operation->end() > computed)
      return wait_for(*operation, computed, phase);
    back_to(computed, phase.name, worker_);
    if (pass != nullptr && computed > phase.begin)
      back_to(std::max(std::min(pass->begin, before(at_)), phase.begin), pass->name, worker_);
  }

  // The last one to submit it held it up, unless that was before this worker waited. Clocks of
  // different hosts agree to some microseconds only: always back.
  void wait_for(const Span& operation, TimePoint since, const Span& phase) {
    back_to(operation.end(), phase.name, worker_);
    const Span& last =
        operation.number ? *last_to_submit_[{operation.generation, *operation.number}] : operation;
    const bool held_up = last.worker != worker_ && last.begin > since;
    back_to(std::clamp(last.begin, since, before(at_)), operation.name,
            operation.number ? kAll : worker_);
    if (held_up) worker_ = last.worker;
  }

  static TimePoint before(TimePoint time) { return time - Duration(1); }

  void back_to(TimePoint begin, const std::string& what, std::int32_t who) {
    if (begin == at_) return;
    shares_[{what, who}] += at_ - begin;
    at_ = begin;
  }

  Shares& shares_;
  std::map<std::int32_t, Doings> by_worker_;
  std::map<Operation, const Span*> last_to_submit_;
  const Span* last_ = nullptr;  // to end its step
  std::int32_t worker_ = 0;
  TimePoint at_{};
};

// Workers that have told that their step is over.
std::size_t done_with(const std::vector<Span>& spans) {
  std::set<std::int32_t> done;
  for (const Span& span : spans)
    if (span.track == Track::kSteps) done.insert(span.worker);
  return done.size();
}

}  // namespace

void CriticalPath::enter(Generation generation, std::size_t workers) {
  generation_ = generation;
  workers_ = workers;
  open_.clear();
}

void CriticalPath::go_back(Step to) { last_ = std::min(last_, to); }

void CriticalPath::add(const Span& span) {
  const bool counts = span.track != Track::kSteps || span.name == kWholeStep;
  if (span.generation != generation_ || span.step <= last_ || !counts) return;
  std::vector<Span>& spans = open_[span.step];
  spans.push_back(span);
  if (span.track == Track::kSteps && done_with(spans) == workers_) {
    Walk(spans, shares_).run();
    ++steps_;
    last_ = span.step;
    open_.erase(open_.begin(), open_.upper_bound(span.step));
  } else if (open_.size() > kMostOpen) {
    open_.erase(open_.begin());
  }
}

PathSummary CriticalPath::summary() const {
  PathSummary path{.steps = steps_};
  for (const auto& [key, time] : shares_) path.shares.push_back({key.first, key.second, time});
  std::ranges::stable_sort(path.shares, std::ranges::greater(), &PathShare::time);
  return path;
}

std::string describe(const PathSummary& path) {
  Duration whole{0};
  for (const PathShare& share : path.shares) whole += share.time;
  if (whole == Duration(0)) return {};
  std::string text;
  double rest = 100;
  for (const PathShare& share : path.shares | std::views::take(kMostShares)) {
    const double percent = 100 * to_seconds(share.time) / to_seconds(whole);
    if (percent < 1) break;
    rest -= percent;
    text += fmt::format("{}{:.0f} % {}", text.empty() ? "" : ", ", percent, share.what);
    if (share.worker >= 0) text += fmt::format(" on worker {}", share.worker);
  }
  if (rest >= 1) text += fmt::format(", {:.0f} % other", rest);
  return text;
}

}  // namespace muster::observe
