#pragma once
// A worker's ties to its job: event loop, network, membership, communicator, hub. When the job is
// lost, whatever waits for a peer is told at once.

#include <atomic>
#include <memory>

#include "muster/base/log.h"
#include "muster/base/result.h"
#include "muster/cluster/environment.h"
#include "muster/cluster/member.h"
#include "muster/comm/communicator.h"
#include "muster/comm/wrap/wrappers.h"
#include "muster/job/spec.h"
#include "muster/net/network.h"
#include "muster/observe/hub.h"
#include "muster/observe/run_folder.h"

namespace muster::app {

class Session {
 public:
  // Reads the launcher's environment; kNotFound where there is none.
  static Result<std::unique_ptr<Session>> create(Logger log);
  ~Session();

  // Joins and connects to the other workers.
  Status join(const job::JobSpec& job, const observe::RunFolder& folder);

  // Tells the coordinator how this worker ended; nothing where it never joined.
  void end(const Status& outcome);

  // After join():
  cluster::Member& member() noexcept { return *member_; }
  // By the launcher, or by a signal to this process: whoever signals a whole group of processes
  // means the job.
  bool stop_requested() const noexcept { return signalled_ || member_->stop_requested(); }
  const std::shared_ptr<comm::Communicator>& communicator() const noexcept { return communicator_; }
  bool first_rank() const noexcept { return member_->membership().rank == Rank{0}; }

  observe::Hub& hub() noexcept { return hub_; }
  const Logger& log() const noexcept { return log_; }
  std::int32_t lanes() const noexcept { return environment_.lanes; }
  const observe::RunFolder& folder() const noexcept { return *folder_; }

 private:
  Session(cluster::WorkerEnvironment environment, Logger log);
  void watch_signals();
  void dump() const;
  Status connect(const job::JobSpec& job);
  Result<std::shared_ptr<comm::Communicator>> create_engine(const job::JobSpec& job,
                                                            const comm::Group& group);

  const cluster::WorkerEnvironment environment_;
  const Logger log_;
  observe::Hub hub_;
  observe::Hub::Subscription subscription_;
  std::optional<observe::RunFolder> folder_;
  std::unique_ptr<net::SystemLoop> loop_;
  net::Registration signals_;
  std::atomic<bool> signalled_{false};
  std::unique_ptr<net::Network> network_;
  std::unique_ptr<cluster::Member> member_;
  std::shared_ptr<comm::FlightRecorder> recorder_;
  std::shared_ptr<comm::Communicator> communicator_;
};

}  // namespace muster::app
