#pragma once
// Sends a run to its server as it goes: what waits to be sent, when the next request is due, and
// what is told of a server that is away. Thread-safe; run() is for a thread of its own, which asks
// the server. It outlives the sink where that thread is stuck in a request.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/observe/sinks/mlflow/backlog.h"
#include "muster/observe/sinks/mlflow/tracked_run.h"
#include "muster/observe/sinks/mlflow/unsent.h"

namespace muster::observe::mlflow {

class Sender {
 public:
  Sender(std::unique_ptr<MlflowServer> server, MlflowRun run, Files& files, Clock& clock,
         std::function<void(Notice)> tell, const MlflowLimits& limits);

  void run();  // until finish() or stop() has ended it, or the server has refused the run

  void take(const RunStarted& started);
  void take(const Metrics& row);
  void take(const RunEnded& ended);
  void finish(Ending ending, Duration at_most);
  bool stop();      // false: run() is stuck in a request
  void conclude();  // once it is stopped: keeps what the server lacks, and tells of it
  void mute();      // nothing is told any more

 private:
  enum class Next : std::uint8_t { kNothing, kBegin, kMetrics, kArtifact, kEnd };
  Next next() const;
  TimePoint due(Next what) const;
  Status perform(Next what, WallTime start, const Ending& ending);
  void tell_of(Next what, const Status& outcome);
  void tell_away(const Error& why);
  void tell_there();
  void settle(Next what, const Status& outcome);
  void settle_done(Next what);
  void supersede(const Metrics& row);
  void send_skipped();
  void take_unsent(std::unique_lock<std::mutex>& lock);
  Unsent take_rest();
  std::string keep(const Unsent& unsent);
  void fill_batch();
  std::size_t waiting() const { return backlog_.numbers() + in_flight_; }
  void tell(Severity severity, std::string text);

  const std::unique_ptr<MlflowServer> server_;
  const MlflowRun run_;
  Files& files_;
  Clock& clock_;
  const MlflowLimits limits_;

  std::mutex mutex_;  // guards what follows, up to progress_
  std::condition_variable changed_;
  Backlog backlog_;
  std::vector<Metrics> skipped_;  // since the last step that was sent: the newest of each metric
  std::optional<WallTime> start_;
  std::optional<Ending> ending_;
  std::size_t in_flight_ = 0;  // numbers of batch_
  std::optional<Error> away_;  // why the last request had no answer
  bool refused_ = false;
  bool ended_ = false;  // as the server knows
  bool has_taken_unsent_ = false;
  bool stopping_ = false;
  bool gone_ = false;     // run() has returned
  TimePoint progress_{};  // when the server took something last

  std::mutex tell_mutex_;
  std::function<void(Notice)> tell_;  // guarded by tell_mutex_; empty: nobody listens any more

  // run()'s alone:
  TrackedRun there_;
  std::vector<Metrics> batch_;
  TimePoint tried_{};
  TimePoint sent_{};
  Duration pause_{0};
  std::optional<TimePoint> told_away_;
  bool is_told_away_ = false;  // and not yet that it is back
  bool told_page_ = false;
};

}  // namespace muster::observe::mlflow
