#pragma once
// A launcher starts a job's workers, keeps the coordinator, and sees to it that the job ends as a
// whole: all workers that are left finish, or all are gone within a second and the culprit is
// named. A worker that dies, or is silent for too long, is no failure of the job while enough are
// left.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/base/log.h"
#include "muster/base/process.h"
#include "muster/base/result.h"
#include "muster/cluster/autoscale.h"
#include "muster/cluster/messages.h"
#include "muster/net/network.h"

namespace muster::cluster {

// What a worker of this launcher's on another host is to be.
struct RemoteStart {
  std::string host;
  std::int32_t worker = 0;
  std::int32_t local_worker = 0;   // which of this launcher's there
  std::int32_t local_workers = 1;  // that start with so many
  bool joins = false;              // those who train
  net::Address coordinator = {};
  std::string credentials = {};
};

// Workers of this launcher's on other hosts. A process here stands for each: its output is the
// worker's, and each of the two ends with the other.
struct RemoteWorkers {
  // Of each, the first ones there are started at once, the others as `scale` wants them; they have
  // the last numbers.
  std::vector<std::string> hosts = {};
  // With room for one more each: for a standby in the place of one that was told to go, as where
  // its host is wanted back. Only with LaunchSpec::standbys.
  std::vector<std::string> spares = {};
  std::string carrier = {};  // "ssh", "Slurm", for a person
  // On a thread that lives as long as the job; the processes end before the job does.
  std::function<Result<std::unique_ptr<Process>>(const RemoteStart&)> start = {};
  // Whether another one can be started in the place of this worker; none: always.
  std::function<bool(std::int32_t worker)> can_start = {};
};

// What a launcher that others start workers for tells them.
struct WorkersWanted {
  std::int32_t present = 0;  // train
  std::int32_t wanted = 0;
  std::int64_t arrived = 0;  // that others have started, since the job began
};

// Begins to ask whether this host is wanted back, and asks until what it returns is gone. Whoever
// says so is named, on any thread, once or again and again.
using OnNotice = std::function<void(const std::string& from)>;
using HostWatch = std::function<std::shared_ptr<void>(OnNotice)>;

struct LaunchSpec {
  std::vector<std::string> command;                // of every worker
  std::map<std::string, std::string> environment;  // added for every worker
  std::int32_t workers = 1;       // that it begins with, those of `remote` among them
  std::int32_t max_workers = 1;   // with those that other hosts start
  std::int32_t min_workers = 1;   // with so many the job goes on; with fewer it waits for new ones
  bool majority = false;          // see MembershipPolicy
  std::int32_t max_restarts = 0;  // of all workers together: a new one for one that died,
  Duration restart_window = std::chrono::hours(1);  // so often within this: see RestartBudget
  bool keeps_ranks = false;       // see MembershipPolicy; min_workers: all but the standbys
  std::int32_t standbys = 0;      // likewise, of `workers`; only with keeps_ranks
  std::string join_flag;          // what the command of a new one has besides
  std::vector<int> held_signals;  // that a worker releases once it listens (base/process.h)
  std::vector<int> cores;         // shared out among the workers; empty: all this process may use
  bool pin = true;                // each worker to its share, where there is a core for each
  Path log_folder;                // rank-N.log are written here; empty: nowhere
  Duration join_timeout = std::chrono::seconds(60);
  Duration heartbeat_timeout = std::chrono::seconds(10);
  Duration calm = std::chrono::seconds(30);           // see CoordinatorOptions
  Duration data_patience = std::chrono::seconds(60);  // likewise
  Duration grace = std::chrono::milliseconds(300);    // from being told to end to SIGKILL
  Duration exit_patience = std::chrono::seconds(30);  // from a worker's good-bye to its end
  // From a signal until some worker is at something that a step may follow; then all end at once,
  // as one may wait for its data for ever.
  Duration begin_patience = std::chrono::seconds(5);
  // For the answers of workers that are asked where they are: the stacks of many threads need a
  // while. On SIGUSR2 those that have not begun are not waited for so long.
  Duration dump_patience = std::chrono::seconds(3);
  std::optional<net::Address> listen;  // for workers of other hosts; none: this host's
  Path credentials;      // file in which those find "host:port credentials"; empty: none may come
  RemoteWorkers remote;  // `listen` is where they come
  Enlisted enlistment;   // see CoordinatorOptions
  std::string version;   // likewise
  ScaleRule scale;       // none: no workers come and go by themselves; asked on the launcher's loop
  Duration scale_every = std::chrono::seconds(30);
  // With it the launcher starts no more than `workers`: it has others start workers that join. On
  // the launcher's loop; must not block. False: it has not asked, as it did a short while ago, or
  // they are on the way.
  std::function<bool(const WorkersWanted&)> request_workers;
  HostWatch watch_host;  // none: nobody asks, but each worker may for itself
};

// The most that a launcher ever starts.
std::int32_t own_workers(const LaunchSpec& spec) noexcept;
// Of the workers that a launcher starts, the first are on its own host: so many at most.
std::int32_t most_here(const LaunchSpec& spec) noexcept;
std::string host_of(const LaunchSpec& spec, std::int32_t worker);  // empty: its own

// A worker that failed, and with it the job or not: the first culprit, not those who fell over it.
struct JobFailure {
  Rank rank = kNoRank;  // kNoRank: nobody's fault
  std::string host;
  int pid = 0;
  std::string reason;                   // "killed by SIGKILL", "exit status 3", "silent for 10.0 s"
  Error error;                          // what it reported itself, or what is known of it
  Progress progress;                    // where it was
  std::vector<std::string> last_lines;  // of its output, at most 20
  std::string log;                      // path of its log; empty: none
  bool last_heard = false;  // `progress` is of its last heartbeat: nobody saw where it ended
  std::string action = {};  // what became of the job, and why; empty where it goes on
};
// Several lines for a person.
std::string describe(const JobFailure& failure);

// What is left without a worker that the job outlives.
struct Remainder {
  std::int32_t workers = 0;
  std::int32_t wanted = 0;            // so many have to join before they go on
  std::vector<std::int32_t> missing;  // workers of this host that are not in it, by number
  // Else everybody has yet to join: `workers` are starting, `wanted` is started in its place.
  bool begun = true;
  std::string_view rule = "workers.min_workers";  // that wants them
  // They go on at once, in the next generation; that is all that comes of the loss.
  bool regroups = false;
};
// One line for a person: who failed, how and where, and how it goes on.
std::string describe_loss_briefly(const JobFailure& loss, const Remainder& left);
// The same, and what it wrote last.
std::string describe_loss(const JobFailure& loss, const Remainder& left);

// Where a worker is: what is known of it, and what it said when it was asked.
struct WorkerState {
  Rank worker = kNoRank;
  std::string host;
  int pid = 0;
  Progress progress;
  std::string process = {};        // describe_process() when it was asked
  std::optional<Bytes> dump = {};  // none: it did not answer
  bool waits_to_begin = false;     // it has joined and others have not, so it has nothing to answer
  Rank rank = kNoRank;             // in the generation that was published last; none: not in it
  bool starting = false;           // it has not begun to train, and no failure is laid to that
};

// Why all workers were asked where they are: somebody wants to know, one of them does not answer
// the others, or the job has failed.
enum class DumpOccasion : std::uint8_t { kAsked, kNoAnswer, kFailure };

// What a signal that asks the job to stop brings, or a notice that the launcher's host goes.
enum class Stopping : std::uint8_t {
  kAfterTheStep,  // with a checkpoint: the first signal
  kAtOnce,        // another one
  kNothingBegun,  // at once: there is nothing to save
};

// Sees the job run. Called on one thread; must not block for long.
class LaunchObserver {
 public:
  virtual ~LaunchObserver() = default;
  virtual void on_generation(const Welcome& /*generation*/) {}
  // The job begins once so many workers of other hosts have joined those of this one, 0 … own-1.
  virtual void on_waiting(std::int32_t /*others*/, std::int32_t /*own*/) {}
  // The job goes on without this one.
  virtual void on_loss(const JobFailure& /*loss*/, const Remainder& /*left*/) {}
  virtual void on_restart(Rank /*rank*/, int /*pid*/) {}
  // A standby went as it was told to; another one is started for it on `host`.
  virtual void on_standby_moved(Rank /*rank*/, const std::string& /*host*/) {}
  // Nobody is started on a host any more: its workers held wrong bits, this one last. Empty: this
  // host.
  virtual void on_distrust(Rank /*rank*/, const std::string& /*host*/) {}
  // Workers of other hosts can join here, with the credentials in LaunchSpec::credentials.
  virtual void on_listening(const net::Address& /*address*/) {}
  virtual void on_scale(std::int32_t /*from*/, const ScaleWish& /*to*/) {}
  // Others have been asked to start more: not all that are wanted are this launcher's to start.
  virtual void on_request(std::int32_t /*present*/, const ScaleWish& /*to*/) {}
  // A worker that was wanted there has come to nothing, and others can be had elsewhere.
  virtual void on_rest(const std::string& /*host*/, Duration /*left_alone*/) {}
  virtual void on_arrival(const WorkerInfo& /*elsewhere*/) {}
  // A newcomer is not let in yet: it and `other` do not reach each other.
  virtual void on_unreached(const WorkerInfo& /*newcomer*/, const WorkerInfo& /*other*/,
                            const std::string& /*why*/) {}
  virtual void on_drain(Rank /*rank*/, Departure /*how*/) {}
  // One that holds the others up would have gone, and stays: too few would be left.
  virtual void on_stay(Rank /*rank*/) {}
  virtual void on_progress(Rank /*rank*/, const Progress& /*progress*/) {}
  virtual void on_report(Rank /*rank*/, const Bytes& /*content*/) {}
  // One whole line of a worker's output, without prefix and newline.
  virtual void on_line(Rank /*rank*/, bool /*is_error*/, std::string_view /*line*/) {}
  // Where everybody is, or was when the job failed.
  virtual void on_dumps(const std::vector<WorkerState>& /*states*/, DumpOccasion /*occasion*/) {}
  // SIGINT, SIGTERM, SIGHUP, SIGUSR1.
  virtual void on_stop(int /*signal*/, Stopping /*how*/) {}
  // This host is wanted back, and the launcher is on it: the job stops as after a signal.
  virtual void on_notice(const std::string& /*from*/, Stopping /*how*/) {}
};

struct JobEnd {
  std::optional<JobFailure> failure;
  std::optional<int> signal;         // ended on its request; none where a failure came before it;
                                     // SIGTERM: a notice was one
  std::optional<int> worker_signal;  // to a worker, for which all have stopped
  bool stop_asked = false;           // by a signal or a notice, be it after a failure
  std::vector<int> exit_statuses;    // by rank; -signal where killed
  std::uint64_t peak_memory = 0;     // bytes: of the worker here that had the most resident
};

class Launcher {
 public:
  virtual ~Launcher() = default;
  // Blocks until every worker is gone. An Error: the job could not be started at all.
  virtual Result<JobEnd> run(const LaunchSpec& spec, LaunchObserver& observer) = 0;
};

// Workers as child processes of this one. Takes over SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2
// while a job runs. Run it on a thread that lives as long as the job: children die with it.
std::unique_ptr<Launcher> create_local_launcher(Processes& processes, Files& files, Logger log,
                                                Clock& clock = system_clock());

// The cores of each worker: contiguous shares that differ by at most one, the larger first; more
// workers than cores: one each, in turn.
std::vector<std::vector<int>> share_cores(const std::vector<int>& cores, std::int32_t workers);

// Cores this process may run on (sched_getaffinity), ascending.
std::vector<int> available_cores();

}  // namespace muster::cluster
