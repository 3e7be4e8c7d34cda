#include "muster/observe/critical_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <ranges>
#include <set>

#include "muster/base/units.h"

namespace muster::observe {
namespace {

constexpr std::size_t kMostOpen = 64;   // steps of which some worker has not told
constexpr std::size_t kMostShares = 5;  // told to a person

// The step as one has it who walks back through it.
class Walk {
 public:
  using Shares = std::map<std::pair<std::string, std::int32_t>, Duration>;
  Walk(const std::vector<Span>& spans, Shares& shares) : spans_(spans), shares_(shares) {}

  // From whoever ended last, to the beginning of the step at whoever the path leads to.
  void run() {
    const Span* last = nullptr;
    for (const Span& span : spans_)
      if (span.track == Track::kSteps && (last == nullptr || span.end() > last->end()))
        last = &span;
    worker_ = last->worker;
    at_ = last->end();
    while (const Span* phase = phase_here()) through(*phase);
  }

 private:
  bool is_here(const Span& span) const { return span.worker == worker_; }

  const Span* phase_here() const {
    const Span* found = nullptr;
    for (const Span& span : spans_)
      if (is_here(span) && span.track == Track::kPhases && span.begin < at_ &&
          (found == nullptr || span.begin > found->begin))
        found = &span;
    return found;
  }

  // What ended last before now.
  const Span* cause_in(const Span& phase) const {
    const Span* found = nullptr;
    for (const Span& span : spans_) {
      const bool can_be = span.track == Track::kLane || span.track == Track::kCommunication;
      if (!is_here(span) || !can_be || span.end() > at_ || span.end() <= phase.begin ||
          passed_.contains(&span))
        continue;
      if (found == nullptr || span.end() > found->end()) found = &span;
    }
    return found;
  }

  void through(const Span& phase) {
    const Span* cause = cause_in(phase);
    if (cause == nullptr) return back_to(phase.begin, phase.name, worker_);
    passed_.insert(cause);
    back_to(cause->end(), phase.name, worker_);
    if (cause->track == Track::kLane)
      return back_to(std::max(cause->begin, phase.begin), cause->name, worker_);
    const Span& last = last_to_submit(*cause);
    back_to(std::max(last.begin, phase.begin), cause->name, cause->number ? kAll : worker_);
    worker_ = last.worker;
  }

  const Span& last_to_submit(const Span& operation) const {
    const Span* last = &operation;
    if (!operation.number) return *last;
    for (const Span& span : spans_)
      if (span.track == Track::kCommunication && span.number == operation.number &&
          span.generation == operation.generation && span.begin > last->begin)
        last = &span;
    return *last;
  }

  // Clocks of different hosts agree to some microseconds only: never forward.
  void back_to(TimePoint begin, const std::string& what, std::int32_t who) {
    if (begin >= at_) return;
    shares_[{what, who}] += at_ - begin;
    at_ = begin;
  }

  static constexpr std::int32_t kAll = -1;
  const std::vector<Span>& spans_;
  Shares& shares_;
  std::int32_t worker_ = 0;
  TimePoint at_{};
  std::set<const Span*> passed_;
};

bool is_whole(const std::vector<Span>& spans, std::size_t workers) {
  std::optional<Generation> generation;
  std::size_t ended = 0;
  for (const Span& span : spans) {
    if (span.track != Track::kSteps) continue;
    if (generation.value_or(span.generation) != span.generation) return false;
    generation = span.generation;
    ++ended;
  }
  return ended == workers;
}

}  // namespace

void CriticalPath::add(const Span& span) {
  std::vector<Span>& spans = open_[span.step];
  spans.push_back(span);
  if (span.track == Track::kSteps && is_whole(spans, workers_)) {
    Walk(spans, shares_).run();
    ++steps_;
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
