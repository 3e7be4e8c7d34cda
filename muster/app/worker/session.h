#pragma once
// A worker's ties to its job: event loop, network, membership, communicator, hub. When the job is
// lost or the generation has ended, whatever waits for a peer is told at once.

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "muster/app/probe/probe.h"
#include "muster/base/log.h"
#include "muster/base/result.h"
#include "muster/cluster/environment.h"
#include "muster/cluster/member.h"
#include "muster/cluster/whereabouts.h"
#include "muster/comm/backend/mpi/mpi_network.h"
#include "muster/comm/backend/nccl/nccl.h"
#include "muster/comm/communicator.h"
#include "muster/comm/engine/measure_costs.h"
#include "muster/comm/wrap/wrappers.h"
#include "muster/job/spec.h"
#include "muster/net/network.h"
#include "muster/observe/hub.h"
#include "muster/observe/run_folder.h"
#include "muster/observe/tracer.h"
#include "muster/train/generations.h"

namespace muster::app {

class Session final : public train::Generations {
 public:
  // Reads the launcher's environment; kNotFound where there is none. `sees_run`: `folder` is the
  // run's own, and not one that stands in for it on another host.
  static Result<std::unique_ptr<Session>> create(const observe::RunFolder& folder, bool sees_run,
                                                 Logger log);
  ~Session() override;

  // From here on signals are heard. `to_others`: it will join those that train already. Call it
  // first; `job` outlives the session.
  void listen(const job::JobSpec& job, bool to_others);

  // Joins and connects to the other workers; false: the training is over, or does without this one.
  Result<bool> join();

  // Tells the coordinator how this worker ended; nothing where it never joined.
  void end(const Status& outcome);

  // After join():
  cluster::Member& member() noexcept { return *member_; }
  // By the launcher, or by a signal to this process: whoever signals a whole group of processes
  // means the job.
  bool stop_requested() const noexcept { return stopped_by_ != 0 || member_->stop_requested(); }
  bool leaving() const noexcept override {  // this worker alone
    return leaving_ || (member_ && member_->resigned());
  }
  const std::shared_ptr<comm::Communicator>& communicator() const noexcept {
    return current_.communicator;
  }
  bool first_rank() const noexcept { return communicator()->group().rank == Rank{0}; }
  // Others train already, and it gets the state from them.
  bool comes_anew() const noexcept { return comes_anew_; }

  const train::Entry& current() const noexcept override { return current_; }
  bool changing() const override;
  bool outlives(const Error& why) const override;
  Result<std::optional<train::Entry>> next(const std::optional<Error>& why,
                                           Duration patience) override;
  void tell_whole() override {
    if (!std::exchange(told_whole_, true)) member_->tell_whole();
  }
  bool loses_somebody() const override;
  void resign() override {
    if (!leaving_) member_->resign();
  }
  void quarantine(const Error& why) override;

  observe::Hub& hub() noexcept { return hub_; }
  cluster::Whereabouts& whereabouts() const noexcept { return *whereabouts_; }
  cluster::Progress where_now() const;
  // Where this worker is, for whoever asks and for traces: see Whereabouts.
  void doing(Step step, std::string_view phase);
  void computing(std::int32_t lane, std::string_view pass);
  const Logger& log() const noexcept { return log_; }
  std::int32_t lanes() const noexcept { return environment_.lanes; }
  const observe::RunFolder& folder() const noexcept { return folder_; }

 private:
  Session(cluster::WorkerEnvironment environment, std::unique_ptr<cluster::Whereabouts> whereabouts,
          observe::RunFolder folder, bool sees_run, Logger log);
  bool is_elastic() const noexcept;
  bool may_stand_by() const noexcept;
  Status wait_for_rank(Deadline deadline);
  void end_mpi();
  cluster::Concerns concerns_of(const Error& error) const;
  void on_signal(int number);
  void watch_for_preemption();
  void leave_early(const std::string& why);
  void stop_for(int signal);
  void dump(bool stacks) const;
  void write_stacks() const;
  void beside_the_loop(std::function<void()> task);
  bool tell_failure(const std::function<void()>& task) const;
  void watch_membership();
  struct Limits {
    Duration arrival;     // of all members
    Duration connecting;  // once they are there
  };
  Status connect(const cluster::Membership& membership, const Limits& limits);
  Result<std::shared_ptr<comm::Communicator>> create_engine(const comm::Group& group,
                                                            const Limits& limits);
  void abort(const Error& why);
  void suspect(const Error& why);
  void begin_trace();
  void deliver(std::vector<observe::Span> spans);

  const cluster::WorkerEnvironment environment_;
  const std::unique_ptr<cluster::Whereabouts> whereabouts_;
  const Logger log_;
  observe::Hub hub_;
  std::optional<observe::Hub::Subscription> subscription_;  // on the first rank
  const observe::RunFolder folder_;
  const bool sees_run_;
  const job::JobSpec* job_ = nullptr;
  std::unique_ptr<net::SystemLoop> loop_;
  net::Registration signals_;
  std::atomic<int> stopped_by_{0};  // a signal; 0: none
  bool quarantined_ = false;
  std::unique_ptr<net::Network> network_;  // to the coordinator and among workers
  std::unique_ptr<comm::MpiNetwork> mpi_;  // among workers where the job asks for MPI
  MusterNccl* nccl_ = nullptr;             // for their sums where it asks for NCCL
  comm::CostBook costs_;                   // what links cost, from one generation to the next
  std::string host_;                       // this one's address, as other workers reach it
  std::unique_ptr<cluster::Member> member_;
  std::atomic<cluster::Member*> asked_{nullptr};  // member_, once it has asked to be let in
  bool joined_ = false;                           // it was let in
  bool comes_anew_ = false;
  bool told_whole_ = false;
  std::atomic<bool> alone_{false};  // the others do not wait for it to begin
  std::shared_ptr<comm::FlightRecorder> recorder_;
  std::optional<observe::Tracer> tracer_;  // where the job is traced
  std::atomic<bool> leaving_{false};
  std::unique_ptr<Probe> preemption_;  // calls the member
  Generation tried_{0};                // the last one it connected to, or failed to
  Rank tried_rank_ = kNoRank;          // this worker's in it
  train::Entry current_;
  std::mutex mutex_;
  std::weak_ptr<comm::Communicator> under_way_;  // guarded by mutex_: what to abort
  std::atomic<bool> busy_{false};                // the thread below is
  std::thread beside_;                           // the loop's
};

}  // namespace muster::app
