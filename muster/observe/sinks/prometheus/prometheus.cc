#include "muster/observe/sinks/prometheus/prometheus.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <mutex>

#include "muster/base/files.h"
#include "muster/base/units.h"

namespace muster::observe {
namespace {

// How far a run is, beside its metrics: {name, what it is, whether it only grows}.
struct Own {
  std::string_view name;
  std::string_view help;
  bool counter = false;
};
constexpr Own kStep{"step", "The last step that was committed."};
constexpr Own kTotalSteps{"total_steps", "Steps until the planned end; 0: not known."};
constexpr Own kEpoch{"epoch", "Epochs completed, with the fraction of the present one."};
constexpr Own kSamples{"samples_seen", "Samples trained on since the run began."};
constexpr Own kParameters{"parameters", "Of the model."};
constexpr Own kWorkers{"workers", "That train now."};
constexpr Own kStepTime{"last_step_timestamp_seconds", "When the last step was committed."};
constexpr Own kCheckpoints{"checkpoints_total", "Written by this launcher.", true};
constexpr Own kCheckpointStep{"checkpoint_step", "Of the newest checkpoint."};
constexpr Own kCheckpointBytes{"checkpoint_bytes", "Of the newest checkpoint."};
constexpr Own kWentBack{"went_back_total", "How often the training went on from an earlier step.",
                        true};
constexpr Own kWarnings{"warnings_total", "Warnings told by this launcher.", true};

struct Shown {
  std::string help;
  bool counter = false;
  double now = 0;
};

std::string escaped(std::string_view label) {
  std::string text;
  for (const char c : label) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n')
      text += "\\n";
    else
      text += c;
  }
  return text;
}

std::string number_of(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

class NumbersSink final : public PrometheusSink {
 public:
  NumbersSink() {
    for (const Own& counter : {kCheckpoints, kWentBack, kWarnings}) set(counter, 0);
  }

  void take(const Record& record) noexcept override {
    const std::lock_guard lock(mutex_);
    std::visit([this](const auto& one) { note(one); }, record);
  }

  void set_workers(std::int64_t workers) noexcept override {
    const std::lock_guard lock(mutex_);
    set(kWorkers, static_cast<double>(workers));
  }

  std::string text() const override {
    const std::lock_guard lock(mutex_);
    std::string text;
    if (labels_.empty()) return text;
    for (const auto& [name, value] : values_) {
      text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0}{3} {4}\n", name, value.help,
                          value.counter ? "counter" : "gauge", labels_, number_of(value.now));
    }
    return text;
  }

 private:
  void set(const Own& own, double value) {
    values_[fmt::format("muster_{}", own.name)] = {std::string(own.help), own.counter, value};
  }
  void add(const Own& counter) {
    set(counter, values_[fmt::format("muster_{}", counter.name)].now + 1);
  }

  void note(const RunStarted& started) {
    labels_ = fmt::format("{{name=\"{}\",run=\"{}\"}}", escaped(started.name),
                          escaped(Path(started.run_folder).filename().native()));
    set(kTotalSteps, static_cast<double>(started.total_steps));
    set(kParameters, static_cast<double>(started.parameters));
    set(kStep, static_cast<double>(to_int(started.first_step)));
    set(kSamples, static_cast<double>(started.samples_seen));
    if (!values_.contains("muster_workers")) set(kWorkers, static_cast<double>(started.workers));
  }
  void note(const Metrics& row) {
    for (const Metric& metric : row.values) {
      values_[prometheus_name(metric.name)] = {metric.name + " of metrics.jsonl", false,
                                               metric.value};
    }
    if (row.is_evaluation()) return;
    set(kStep, static_cast<double>(to_int(row.step)));
    set(kEpoch, row.epoch);
    set(kSamples, static_cast<double>(row.samples_seen));
    set(kStepTime, to_seconds(row.time.time_since_epoch()));
  }
  void note(const CheckpointWritten& checkpoint) {
    add(kCheckpoints);
    set(kCheckpointStep, static_cast<double>(to_int(checkpoint.step)));
    set(kCheckpointBytes, static_cast<double>(checkpoint.bytes));
  }
  void note(const WentBack& /*back*/) { add(kWentBack); }
  void note(const Notice& notice) {
    if (notice.severity != Severity::kNote) add(kWarnings);
  }
  void note(const Span& /*span*/) {}
  void note(const StepCommitted& /*committed*/) {}
  void note(const RunEnded& /*ended*/) {}

  mutable std::mutex mutex_;
  std::string labels_;                   // guarded by mutex_
  std::map<std::string, Shown> values_;  // by name; guarded by mutex_
};

bool may_be_in_a_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

std::string prometheus_name(std::string_view metric) {
  std::string name = "muster_";
  for (const char c : metric) name += may_be_in_a_name(c) ? c : '_';
  return name;
}

std::shared_ptr<PrometheusSink> create_prometheus_sink() { return std::make_shared<NumbersSink>(); }

}  // namespace muster::observe
