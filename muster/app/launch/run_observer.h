#pragma once
// What the launcher does with what workers say: records go to the sinks, a failure becomes a few
// lines for a person.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "muster/app/launch/live_file.h"
#include "muster/app/launch/run_sinks.h"
#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/base/log.h"
#include "muster/cluster/launcher.h"
#include "muster/observe/critical_path.h"
#include "muster/observe/hub.h"
#include "muster/observe/run_folder.h"
#include "muster/observe/sinks/console/console.h"
#include "muster/observe/sinks/console/recoveries.h"
#include "muster/observe/sinks/mlflow/mlflow.h"
#include "muster/observe/sinks/prometheus/prometheus.h"

namespace muster::app {

class RunObserver final : public cluster::LaunchObserver {
 public:
  RunObserver(observe::RunFolder folder, RunSinks sinks, const observe::ConsoleOptions& console,
              Files& files, Logger log);
  ~RunObserver() override;

  // The run's numbers, for as long as the observer is there.
  void expose(std::shared_ptr<observe::PrometheusSink> numbers, const std::string& url);

  // What the run measures, for a server of MLflow's, until end_tracking().
  void track(std::shared_ptr<observe::MlflowSink> server);

  void on_generation(const cluster::Welcome& generation) override;
  void on_progress(Rank rank, const cluster::Progress& progress) override;
  void on_report(Rank rank, const cluster::Bytes& content) override;
  void on_waiting(std::int32_t others, std::int32_t own) override;
  void on_loss(const cluster::JobFailure& loss, const cluster::Remainder& left) override;
  void on_restart(Rank rank, int pid) override;
  void on_standby_moved(Rank rank, const std::string& host) override;
  void on_distrust(Rank rank, const std::string& host) override;
  void on_listening(const net::Address& address) override;
  void on_scale(std::int32_t from, const cluster::ScaleWish& to) override;
  void on_request(std::int32_t present, const cluster::ScaleWish& to) override;
  void on_rest(const std::string& host, Duration left_alone) override;
  void on_unreached(const cluster::WorkerInfo& newcomer, const cluster::WorkerInfo& other,
                    const std::string& why) override;
  void on_arrival(const cluster::WorkerInfo& elsewhere) override;
  void on_drain(Rank rank, cluster::Departure how) override;
  void on_stay(Rank rank) override;
  void on_line(Rank rank, bool is_error, std::string_view line) override;
  void on_dumps(const std::vector<cluster::WorkerState>& states,
                cluster::DumpOccasion occasion) override;
  void on_stop(int signal, cluster::Stopping how) override;
  void on_notice(const std::string& from, cluster::Stopping how) override;

  Step last_step() const noexcept { return ended_ ? ended_->step : last_step_; }
  // The end of the run: what came of it, with `failure` for a person, and summary.json. The run's
  // files are complete from here; what a person is told later is only shown.
  void conclude(const cluster::JobEnd& end, const std::string& failure);
  void tell(observe::Severity severity, std::string text);
  void tell(observe::Notice notice);
  // The same from any thread, and never held back: for what comes once the run has begun.
  std::function<void(observe::Notice)> teller();
  void tell_report();  // where it lies
  void tell_trace();   // likewise, where there is one
  // The server gets the rest, and the files; waits for it, but not long after a signal.
  void end_tracking(const cluster::JobEnd& end);
  void fail(const std::string& reason);  // nothing ever ran: summary.json says why
  // Nothing is shown any more. kUnavailable where some of it could not be.
  Status end_showing();

  // Its version, as the workers told; empty where none came so far.
  const std::string& libtorch() const noexcept { return libtorch_; }
  // The workers ended in good order, before the training was over.
  bool stopped_early() const noexcept { return ended_ && !ended_->completed; }
  // The training was over before its last step (evaluation.early_stop_patience).
  bool lost_patience() const noexcept {
    return ended_ && ended_->completed && to_int(ended_->step) < total_steps_;
  }

 private:
  void tell_held();
  void tell_what_waits(const observe::RunStarted& started);
  void tell_late();
  void tell_of_asking();
  bool is_told_already(const observe::Record& record);
  void tell_return(const observe::WentBack& back);
  void trace(const observe::Record& record);
  void tell_result(std::string_view name, std::string_view value);
  observe::RunEnded end_of(const cluster::JobEnd& end) const;

  const observe::RunFolder folder_;
  Files& files_;
  const Logger log_;
  const std::unique_ptr<observe::Terminal> terminal_;
  observe::Hub hub_;
  std::shared_ptr<observe::Recoveries> recoveries_;  // null: each notice is shown
  observe::Hub::Subscription shown_;
  std::vector<observe::Hub::Subscription> kept_;  // in files
  std::optional<Path> trace_;                     // where the run is traced
  std::shared_ptr<observe::Sink> traced_;
  observe::CriticalPath path_;
  std::shared_ptr<observe::PrometheusSink> numbers_;  // null: nobody fetches them
  observe::Hub::Subscription numbered_;
  std::shared_ptr<observe::MlflowSink> tracked_;  // null: no server gets them
  observe::Hub::Subscription tracking_;
  std::optional<LiveFile> live_;            // until the end
  std::optional<observe::RunEnded> ended_;  // as the first rank told it
  Step last_step_{0};
  std::int64_t total_steps_ = 0;  // as the first rank told them
  std::optional<Step> told_step_;
  std::optional<Step> told_commit_;
  std::optional<Step> told_evaluation_;
  bool told_start_ = false;
  std::pair<Generation, std::int64_t>
      told_back_{};  // in which it last went back, how often by then
  std::string libtorch_;
  bool told_of_asking_ = false;
  bool holds_notes_ = true;                  // until the run's first line
  std::vector<observe::Notice> held_notes_;  // in their order
  std::vector<std::string> held_up_;         // when the job failed: who waited for whom
  bool insisted_ = false;                    // somebody signalled twice
  bool noticed_ = false;                     // this host is wanted back
  const TimePoint began_;
};

}  // namespace muster::app
