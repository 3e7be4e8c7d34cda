#pragma once
// One job as the local launcher runs it: from the first process to the last. All on the loop's
// thread; `on_over` is its last word.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/cluster/coordinator.h"
#include "muster/cluster/host_rests.h"
#include "muster/cluster/launcher.h"
#include "muster/cluster/restart_budget.h"
#include "muster/cluster/stop_wishes.h"
#include "muster/cluster/worker_process.h"

namespace muster::cluster {

class LocalJob {
 public:
  LocalJob(net::SystemLoop& loop, const LaunchSpec& spec, LaunchObserver& observer, Files& files,
           Logger log, std::function<void()> on_over);

  // `host`: another one than is the worker's (host_of); empty: that one.
  using Spawn = std::function<Result<std::unique_ptr<WorkerProcess>>(
      std::int32_t worker, bool joins, const std::string& host)>;

  CoordinatorEvents coordinator_events();  // call the job on the loop's thread
  void begin(Coordinator& coordinator, std::vector<std::unique_ptr<WorkerProcess>> workers,
             Spawn spawn);
  void on_signal(int number);
  void on_notice(const std::string& from);  // this host is wanted back
  JobEnd result() const;                    // once it is over

 private:
  enum class State : std::uint8_t { kRunning, kSettling, kEnding, kOver };
  struct Fault {
    Step step{0};  // in which it showed
    std::string kind;
    friend bool operator==(const Fault&, const Fault&) = default;
  };

  WorkerProcess* find(std::int32_t worker) const;
  void note_generation(const Welcome& generation);
  void welcome(const WorkerInfo& info);
  void consider();  // new evidence: is somebody to blame, and is it certain?
  void conclude();
  void hear_failure(std::int32_t number, const Failure& failure);
  void lose(std::int32_t number, const Error& why);
  void hear_report(Rank rank, const Bytes& content);
  bool is_considering() const;
  bool awaits_an_end();
  void tell_held_reports();
  bool is_harmless(const WorkerProcess& culprit) const;
  bool is_accident(const WorkerProcess& culprit) const;
  void admit(WorkerProcess& worker);
  std::int64_t process_meant(const Failure& failure) const;
  void take_account(WorkerProcess& culprit) const;
  std::optional<Fault> fault_of(const WorkerProcess& culprit) const;
  bool can_do_without(const WorkerProcess& culprit) const;
  bool can_begin_without(const WorkerProcess& culprit) const;
  bool would_start_in_vain(const WorkerProcess& culprit) const;
  bool ended_as_one_before(const WorkerProcess& culprit) const;
  std::int32_t starting_without(const WorkerProcess* culprit) const;
  bool may_start_again(const WorkerProcess& culprit) const;
  bool starts_fail_at(std::int32_t worker) const;
  Remainder remainder_without(const WorkerProcess& culprit) const;
  void note_start(const WorkerProcess& culprit);
  bool is_done() const;
  bool is_in(const WorkerProcess& worker) const;
  bool takes_part(const WorkerProcess& worker) const;
  bool stands_by(const WorkerProcess& worker) const;
  static bool cannot_answer(const WorkerProcess& worker);
  Least least() const;
  std::int32_t left_without(const WorkerProcess& culprit) const;
  std::vector<std::int32_t> missing_without(const WorkerProcess& culprit) const;
  std::int32_t coming_without(const WorkerProcess& culprit) const;
  bool others_may_join(std::int32_t left) const;
  bool awaits_others() const;
  void give_up_waiting();
  void end_unfinished();
  void write_off(WorkerProcess& culprit);
  void replace(const WorkerProcess& culprit);
  bool may_replace(const WorkerProcess& culprit) const;
  bool distrusts_host_of(const WorkerProcess& culprit) const;
  std::int32_t wrong_bits_of(const std::string& remote_host) const;
  bool start(std::int32_t worker);
  void move_standby(const WorkerProcess& gone);
  void scale_later();
  void scale();
  void grow(ScaleWish wish);
  void shrink(const ScaleWish& wish);
  std::vector<std::int32_t> places_for(std::int32_t workers) const;
  bool may_grow_at(std::int32_t worker) const;
  bool is_one_more(const WorkerProcess& culprit) const;
  void tell_loss(const WorkerProcess& culprit, const JobFailure& loss, const Remainder& left);
  Step newest_step() const;
  Step step_at_loss(const WorkerProcess& culprit) const;
  void watch(WorkerProcess& worker);
  void hear_out();
  void bound_exit(WorkerProcess& worker);
  void drop_latecomers();
  JobFailure failure_of(const WorkerProcess& culprit) const;
  void end_all(const Error& why);
  void kill_all();
  void await_killed();
  std::vector<WorkerProcess*> all() const;
  void check_over();
  void stop(std::optional<int> signal, bool insists);
  void tell_stop(std::optional<int> signal, Stopping how);
  void bound_beginning(std::optional<int> signal);
  void leave_at_once();
  void ask_for_dumps(DumpOccasion occasion);
  void look_into_no_answer();
  bool has_looked_into() const;
  Rank rank_of(std::int32_t worker) const;  // in the present generation; kNoRank: not in it
  bool awaits_stacks() const;
  void take_dump(std::int32_t worker, const Bytes& content);
  void tell_dumps_if_complete();
  void tell_dumps();
  Error error_of(const WorkerProcess& culprit) const;
  std::string reason_of(const WorkerProcess& culprit) const;
  void finish();

  net::SystemLoop& loop_;
  const LaunchSpec& spec_;
  LaunchObserver& observer_;
  Files& files_;
  Logger log_;
  std::function<void()> on_over_;
  Coordinator* coordinator_ = nullptr;
  std::map<std::int32_t, std::unique_ptr<WorkerProcess>> workers_;  // by number
  std::vector<std::unique_ptr<WorkerProcess>> replaced_;
  std::int64_t processes_seen_ = 0;
  std::int64_t arrived_ = 0;                          // of them: that other hosts have started
  std::vector<std::pair<Rank, Bytes>> held_reports_;  // while it is considered who is to blame
  Spawn spawn_;
  std::vector<std::string> spares_;            // of RemoteWorkers: those that are left
  std::map<std::int32_t, std::string> homes_;  // by worker: hosts of standbys that have moved
  RestartBudget restarts_;
  std::map<std::string, std::int32_t> wrong_bits_;  // by remote host: so many workers held some
  HostRests rests_;
  const std::uint64_t memory_kills_;  // before the job
  State state_ = State::kRunning;
  bool published_ = false;
  StopWishes wishes_;
  std::optional<int> signal_;         // that ends it
  std::optional<int> worker_signal_;  // to a worker, for which all have stopped
  bool stop_asked_ = false;           // by that or by one after a failure
  std::string notice_;                // that is the reason; empty: none
  std::optional<Rank> last_loss_;
  std::optional<Fault> last_fault_;            // that the job outlived
  std::string last_failed_start_;              // how it ended, before it had joined
  std::map<std::int32_t, int> failed_starts_;  // by worker: in a row, that came to nothing
  std::optional<Verdict> verdict_;
  std::optional<Error> verdict_error_;
  Progress verdict_progress_;
  std::string verdict_action_;
  net::Registration settle_timer_;
  std::optional<TimePoint> ending_since_;  // some process is on its way out
  net::Registration hear_timer_;           // for the last messages of processes that have ended
  net::Registration kill_timer_;
  net::Registration left_behind_timer_;  // whoever was killed and does not end
  net::Registration waiting_timer_;      // for more workers
  net::Registration drain_timer_;
  net::Registration scale_timer_;
  net::Registration begin_timer_;  // until which it may begin, though asked to stop
  Step scaled_step_{0};            // the newest when the rule was asked last
  std::optional<Generation> scaled_generation_;
  Generation generation_{0};
  std::vector<std::int32_t> members_;      // of the present generation, by rank
  std::optional<DumpOccasion> asked_;      // for dumps that have not been told yet
  std::optional<Generation> looked_into_;  // in which somebody did not answer
  std::map<std::int32_t, Bytes> dumps_;
  std::map<std::int32_t, std::string> processes_;  // when they were asked
  TimePoint asked_at_{};
  net::Registration dump_timer_;
  net::Registration start_dump_timer_;  // until which who has not begun may answer
};

}  // namespace muster::cluster
