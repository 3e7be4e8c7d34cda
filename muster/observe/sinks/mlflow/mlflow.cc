#include "muster/observe/sinks/mlflow/mlflow.h"

#include <thread>
#include <utility>

#include "muster/observe/sinks/mlflow/sender.h"

namespace muster::observe {
namespace {

class TrackingSink final : public MlflowSink {
 public:
  TrackingSink(std::shared_ptr<mlflow::Sender> sender, Clock& clock)
      : sender_(std::move(sender)), clock_(clock), thread_([sender = sender_] { sender->run(); }) {}

  ~TrackingSink() override {
    stop();
    sender_->mute();
  }

  // Others come often, and are not for it; its own notices come back here as well.
  void take(const Record& record) noexcept override {
    if (const auto* started = std::get_if<RunStarted>(&record)) sender_->take(*started);
    if (const auto* row = std::get_if<Metrics>(&record)) sender_->take(*row);
    if (const auto* ended = std::get_if<RunEnded>(&record)) sender_->take(*ended);
  }

  void finish(RunState state, std::vector<Path> artifacts, Duration at_most) override {
    sender_->finish({state, std::move(artifacts), clock_.wall()}, at_most);
    stop();
    sender_->conclude();
    sender_->mute();
  }

 private:
  void stop() {
    if (!thread_.joinable()) return;
    // A thread that is stuck cannot be joined; it keeps what it needs alive.
    sender_->stop() ? thread_.join() : thread_.detach();
  }

  const std::shared_ptr<mlflow::Sender> sender_;
  Clock& clock_;
  std::thread thread_;
};

}  // namespace

std::shared_ptr<MlflowSink> create_mlflow_sink(std::unique_ptr<MlflowServer> server, MlflowRun run,
                                               Files& files, Clock& clock,
                                               std::function<void(Notice)> tell,
                                               const MlflowLimits& limits) {
  return std::make_shared<TrackingSink>(
      std::make_shared<mlflow::Sender>(std::move(server), std::move(run), files, clock,
                                       std::move(tell), limits),
      clock);
}

}  // namespace muster::observe
