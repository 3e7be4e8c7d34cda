#pragma once
// The sinks of a launcher (app/launch/run_observer.h), as many of them as are asked for.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/sinks/hurried_clock.h"
#include "bench/sinks/recording.h"
#include "muster/app/launch/live_file.h"
#include "muster/observe/critical_path.h"
#include "muster/observe/hub.h"
#include "muster/observe/sinks/console/terminal.h"
#include "muster/observe/sinks/mlflow/mlflow.h"
#include "muster/observe/sinks/prometheus/prometheus.h"

namespace muster::bench {

// What is the same in every assembly.
struct Surroundings {
  HurriedClock& clock;  // outlives the process's threads
  Files& files;
  const Recording& recording;
  std::string tracking_uri;  // of the MLflow server
  std::int64_t steps;        // that it takes
};

// One thread.
class Assembly {
 public:
  // `folder` is new, and there.
  Assembly(const Surroundings& around, Path folder);

  Status add(std::string_view part);  // one of kParts
  void begin();
  void step(std::int64_t index);  // from 0
  void end();                     // all is written and sent

  const Path& folder() const noexcept { return folder_; }
  const std::string& scraped() const noexcept { return scraped_; }
  const std::string& live() const noexcept { return live_text_; }  // live.json, before it went
  std::int64_t told_spans() const noexcept { return told_spans_; }
  std::int64_t path_steps() const;  // on the critical path

 private:
  Status keep(Result<std::shared_ptr<observe::Sink>> sink);
  Status add_console();
  Status add_trace();
  Status add_live();
  Status add_prometheus();
  Status add_mlflow();
  void take(const Message& message);
  void publish(const observe::Record& record);
  void beat(Step step);

  const Surroundings& around_;
  const Path folder_;
  const TimePoint began_;
  std::unique_ptr<observe::Terminal> terminal_;
  observe::Hub hub_;
  std::vector<observe::Hub::Subscription> kept_;
  bool over_channel_ = false;
  std::shared_ptr<observe::Sink> traced_;
  observe::CriticalPath path_;
  std::shared_ptr<observe::PrometheusSink> numbers_;
  std::shared_ptr<observe::MlflowSink> tracked_;
  std::optional<app::LiveFile> live_file_;
  std::string scraped_, live_text_;
  std::int64_t told_spans_ = 0;
};

// Each by itself is measured under its name. "channel": records become bytes and records again, as
// between worker and launcher; "live": live.json, which pages and `muster top` read.
inline constexpr std::string_view kParts[] = {"channel", "console",     "jsonl",
                                              "ledger",  "tensorboard", "trace",
                                              "live",    "prometheus",  "mlflow"};

// That a part has taken every step; else the error says what it lacks. What the console wrote and
// what the MLflow server got is for who started the process to count.
Status check(std::string_view part, const Assembly& assembly, const Surroundings& around);

}  // namespace muster::bench
