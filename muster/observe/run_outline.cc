#include "muster/observe/run_outline.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "muster/observe/record_json.h"

namespace muster::observe {
namespace {

// As to_json_line() begins a line.
constexpr std::string_view kMetricsLine = R"({"type":"metrics")";
constexpr std::string_view kEvaluation = R"("eval/)";
constexpr std::string_view kNoticeLine = R"({"type":"notice")";
// As train/stragglers.h describes one, and as it is told that it is none any more.
constexpr std::string_view kSlow[] = {"slower than the others", "over a slow link",
                                      "its storage is slow"};
constexpr std::string_view kKeepsPace = "keeps pace again";
constexpr std::string_view kRare[] = {R"({"type":"run_started")", R"({"type":"run_ended")"};

bool is_rare(std::string_view line) {
  return std::ranges::any_of(kRare, [&](std::string_view one) { return line.starts_with(one); });
}

bool tells_of_slowness(std::string_view text) {
  return std::ranges::any_of(kSlow,
                             [&](std::string_view one) { return text.find(one) != text.npos; });
}

// "worker 3 (" of "worker 3 (pid 12 on b) computes 2.0 × slower than the others: …"
std::string_view who_of(std::string_view text) { return text.substr(0, text.find('(') + 1); }

// Reads the lines of which there are few, and of the steps the first and the last of each start.
class OutlineReader {
 public:
  void take(std::string_view line) {
    if (is_rare(line)) {
      take_rare(line);
    } else if (line.starts_with(kMetricsLine) && line.find(kEvaluation) != line.npos) {
      if (auto row = metrics(line)) outline_.evaluations.push_back(std::move(*row));
    } else if (line.starts_with(kNoticeLine)) {
      if (tells_of_slowness(line) || line.find(kKeepsPace) != line.npos) take_pace(line);
    } else if (line.starts_with(kMetricsLine)) {
      if (first_.empty()) first_ = line;
      last_ = line;
      recent_[steps_++ % recent_.size()] = line;
    }
  }

  RunOutline finish() {
    if (!outline_.ended) outline_.step_time = recent_step_time();
    end_of_start();
    return std::move(outline_);
  }

 private:
  static std::optional<Metrics> metrics(std::string_view line) {
    auto record = from_json_line(line);
    auto* row = record ? std::get_if<Metrics>(&*record) : nullptr;
    return row ? std::optional(std::move(*row)) : std::nullopt;
  }

  void take_rare(std::string_view line) {
    auto record = from_json_line(line);
    if (!record) return;
    if (auto* started = std::get_if<RunStarted>(&*record)) {
      end_of_start();
      begin(std::move(*started));
    } else if (auto* ended = std::get_if<RunEnded>(&*record)) {
      outline_.ended = std::move(*ended);
    }
  }

  std::optional<double> recent_step_time() const {
    std::vector<double> times;
    for (const std::string_view line : std::span(recent_).first(std::min(steps_, recent_.size()))) {
      const auto row = metrics(line);
      if (const auto time = row ? row->find(metric::kStepTime) : std::nullopt)
        times.push_back(*time);
    }
    if (times.empty()) return std::nullopt;
    const auto middle = times.begin() + std::ssize(times) / 2;
    std::ranges::nth_element(times, middle);
    return *middle;
  }

  // The last word on a worker counts.
  void take_pace(std::string_view line) {
    const auto record = from_json_line(line);
    const auto* notice = record ? std::get_if<Notice>(&*record) : nullptr;
    if (notice == nullptr) return;
    std::erase_if(outline_.slow, [&](const std::string& before) {
      return before.starts_with(who_of(notice->text));
    });
    if (tells_of_slowness(notice->text)) outline_.slow.push_back(notice->text);
  }

  void begin(RunStarted started) {
    outline_.slow.clear();
    steps_ = 0;
    std::erase_if(outline_.evaluations,
                  [&](const Metrics& row) { return row.step > started.first_step; });
    outline_.started = std::move(started);
    outline_.ended.reset();
  }

  void end_of_start() {
    const auto first = metrics(std::exchange(first_, {}));
    auto last = metrics(std::exchange(last_, {}));
    if (outline_.ended) {
      outline_.took += outline_.ended->took;
    } else if (first && last) {
      outline_.took += last->time - first->time;
    }
    if (last) outline_.last_step = std::move(last);
  }

  RunOutline outline_;
  std::string_view first_, last_;  // steps of the present start
  std::array<std::string_view, 15> recent_{};
  std::size_t steps_ = 0;  // of them, of which the last are in recent_
};

}  // namespace

RunOutline read_outline(std::string_view text) {
  OutlineReader reader;
  for (std::size_t end = 0; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1))
    reader.take(text.substr(0, end));
  return reader.finish();
}

std::optional<Metric> best_evaluation(const RunOutline& outline) {
  std::optional<Metric> best;
  const auto consider = [&](const Metrics& row, std::string_view name, double sign) {
    const auto value = row.find(name);
    if (value && (!best || sign * *value > sign * best->value)) best = {std::string(name), *value};
  };
  for (const Metrics& row : outline.evaluations) consider(row, metric::kEvalAccuracy, 1);
  if (best) return best;
  for (const Metrics& row : outline.evaluations) consider(row, metric::kEvalLoss, -1);
  return best;
}

Step last_step(const RunOutline& outline) {
  if (outline.ended) return outline.ended->step;
  if (outline.last_step) return outline.last_step->step;
  return outline.started ? outline.started->first_step : Step{0};
}

}  // namespace muster::observe
