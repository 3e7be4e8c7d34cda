#include "muster/app/launch/scale_rule.h"

#include <fmt/format.h>

#include <memory>
#include <mutex>

#include "muster/app/probe/probe.h"
#include "muster/base/number.h"
#include "muster/job/daily.h"

namespace muster::app {
namespace {

using cluster::ScaleView;
using cluster::ScaleWish;

// What was answered last; the launcher's loop must not wait for an answer.
class LastAnswer {
 public:
  LastAnswer(ProbeSpec spec, Duration every, Processes& processes, Files& files, const Logger& log)
      : log_(log),
        probe_(
            std::move(spec), every, [this](const Answer& answer) { take(answer); }, processes,
            files, log) {}

  ScaleWish wish(const ScaleView& view) {
    const std::lock_guard lock(mutex_);
    return workers_ ? ScaleWish{*workers_, from_ + " asks for them"}
                    : ScaleWish{view.workers, "nobody has answered yet"};
  }

 private:
  void take(const Answer& answer) {
    const auto number = number_from<std::int32_t>(answer.text);
    if (!number || *number < 0) {
      if (std::exchange(complained_, answer.text) != answer.text)
        log_->warn("[autoscaling] {} answers \"{}\"; expected a number of workers", answer.from,
                   answer.text.substr(0, 80));
      return;
    }
    const std::lock_guard lock(mutex_);
    workers_ = number;
    from_ = answer.from;
  }

  const Logger log_;
  std::string complained_;  // the probe's thread
  std::mutex mutex_;
  std::optional<std::int32_t> workers_;
  std::string from_;
  Probe probe_;  // last: calls take()
};

}  // namespace

cluster::ScaleRule create_scale_rule(const job::AutoscalingSpec& scaling, Clock& clock,
                                     Processes& processes, Files& files, const Logger& log) {
  switch (scaling.policy) {
    case job::AutoscalingPolicy::kNone:
      return {};
    case job::AutoscalingPolicy::kThroughput:
      return cluster::ThroughputRule(scaling.min_gain);
    case job::AutoscalingPolicy::kSchedule:
      return [daily = job::parse_daily(scaling.schedule).value(), &clock](const ScaleView&) {
        const int minute = minute_of_day(clock.wall());
        return ScaleWish{job::workers_at(daily, minute),
                         fmt::format("as planned for {:02}:{:02}", minute / 60, minute % 60)};
      };
    case job::AutoscalingPolicy::kProbe:
      break;
  }
  const auto last = std::make_shared<LastAnswer>(
      ProbeSpec{.file = scaling.file, .command = scaling.command, .url = scaling.url},
      scaling.every, processes, files, log);
  return [last](const ScaleView& view) { return last->wish(view); };
}

}  // namespace muster::app
