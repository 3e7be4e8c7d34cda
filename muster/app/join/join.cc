#include "muster/app/join/join.h"

#include <fmt/format.h>

#include <csignal>

#include "muster/app/join/instruction_set.h"
#include "muster/app/version/version.h"
#include "muster/base/backoff.h"
#include "muster/base/pause.h"
#include "muster/base/random.h"
#include "muster/base/units.h"
#include "muster/cluster/enlist.h"
#include "muster/cluster/environment.h"
#include "muster/cluster/launcher.h"
#include "muster/cluster/process_group.h"
#include "muster/cluster/whereabouts.h"
#include "muster/job/load.h"
#include "muster/observe/run_folder.h"

namespace muster::app {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(100);
constexpr Duration kLongestPause = std::chrono::seconds(2);
// What one try may take: a connection whose first packets are lost is better begun anew.
constexpr Duration kTry = std::chrono::seconds(5);
constexpr Duration kGoodbye = std::chrono::seconds(2);

struct Found {
  Invitation invitation;
  std::unique_ptr<net::Network> network;
  std::unique_ptr<cluster::Place> place;  // in the network
};

Result<Found> knock(const JoinOptions& options, Invitation invitation, net::SystemLoop& loop,
                    Deadline deadline, const Logger& log) {
  Found found{.invitation = std::move(invitation), .network = nullptr, .place = nullptr};
  MUSTER_ASSIGN(const auto credentials, net::credentials_from_text(found.invitation.credentials));
  MUSTER_ASSIGN(found.network, net::create_network(loop, credentials, {}, log));
  const cluster::WorkerInfo here = cluster::describe_this_process(-1);
  MUSTER_ASSIGN(found.place,
                cluster::enlist(*found.network, found.invitation.coordinator,
                                {.host = here.host,
                                 .pid = here.pid,
                                 .worker = options.orders ? options.orders->worker : -1,
                                 .version = build_version(),
                                 .boot_id = here.boot_id},
                                deadline));
  return found;
}

// A launcher that is there and refuses does so again.
bool may_come(const Error& why) {
  return why.code == ErrorCode::kUnavailable || why.code == ErrorCode::kTimeout ||
         why.code == ErrorCode::kPeerLost;
}

// A launcher may come up later than its workers, and so may the file that tells of it.
Result<Found> find_launcher(const JoinOptions& options, net::SystemLoop& loop, const Logger& log) {
  Clock& clock = system_clock();
  const Deadline deadline = Deadline::after(clock, options.join_timeout);
  std::string told;
  Backoff backoff(kFirstPause, kLongestPause);
  for (;;) {
    const Duration wait = backoff.next();
    const Deadline soon(std::min(deadline.at(), Deadline::after(clock, kTry).at()));
    auto invited = options.invitation();
    if (!invited && invited.error().code != ErrorCode::kNotFound) return invited.error();
    auto found = invited ? knock(options, std::move(*invited), loop, soon, log)
                         : Result<Found>(fail(ErrorCode::kUnavailable, invited.error().message));
    if (found || !may_come(found.error())) return found;
    const std::string& why = found.error().message;
    if (deadline.left(clock) <= wait)
      return fail(ErrorCode::kUnavailable,
                  fmt::format("{}; no launcher was found within {} (--join-timeout)", why,
                              format_duration(options.join_timeout)));
    if (std::exchange(told, why) != why)
      options.tell(
          fmt::format("{}; trying again for {}", why, format_duration(deadline.left(clock))));
    pause(clock, wait);
  }
}

// The run's own folder where this host sees it, else one that stands in for it and goes at the end.
class WorkFolder {
 public:
  static Result<WorkFolder> find(Files& files, const cluster::Enlisted& enlisted,
                                 const Path& scratch) {
    auto seen = observe::RunFolder::open(files, enlisted.run_folder);
    if (seen && files.read(seen->resolved_job()).value_or("") == enlisted.job)
      return WorkFolder(files, seen->root(), false);
    const Path root = scratch / fmt::format("muster-join-{:016x}", system_entropy().next());
    MUSTER_TRY(files.create_folders(root));
    WorkFolder made(files, root, true);
    MUSTER_ASSIGN(const auto folder, observe::RunFolder::open(files, root));
    MUSTER_TRY(write_atomically(files, folder.resolved_job(), enlisted.job));
    return made;
  }
  WorkFolder(WorkFolder&& other) noexcept
      : files_(other.files_), root_(std::exchange(other.root_, {})), stands_in_(other.stands_in_) {}
  WorkFolder& operator=(WorkFolder&&) = delete;
  ~WorkFolder() {
    if (stands_in_ && !root_.empty()) static_cast<void>(files_.remove_all(root_));
  }
  const Path& root() const noexcept { return root_; }
  bool stands_in() const noexcept { return stands_in_; }

 private:
  WorkFolder(Files& files, Path root, bool stands_in)
      : files_(files), root_(std::move(root)), stands_in_(stands_in) {}
  Files& files_;
  Path root_;
  bool stands_in_;
};

// What the job asks of every worker's kernels, wherever it computes.
Result<std::map<std::string, std::string>> kernel_variables(const JoinOptions& options,
                                                            const WorkFolder& folder,
                                                            const cluster::Enlisted& enlisted) {
  const auto job =
      job::parse_job(enlisted.job, folder.root() / "resolved.yaml", {.fields = options.fields});
  if (!job)
    return with_context(job.error(),
                        "[worker] the launcher's job is not one for this program; is "
                        "muster of the same version there and here?");
  MUSTER_TRY(check_instruction_set(job->spec.training.isa));
  return instruction_set_variables(job->spec.training.isa);
}

// As the launcher starts those of its own host.
void follow(const Orders& orders, const WorkFolder& folder, ProcessSpec& spec,
            cluster::WorkerEnvironment environment) {
  const auto cores = cluster::available_cores();
  const auto share = cluster::share_cores(
      cores, orders.local_workers)[static_cast<std::size_t>(orders.local_worker)];
  environment.local_worker = orders.local_worker;
  environment.local_workers = orders.local_workers;
  environment.lanes = static_cast<std::int32_t>(share.size());
  spec.environment = to_variables(environment);
  spec.environment.insert(orders.environment.begin(), orders.environment.end());
  if (std::ssize(cores) >= orders.local_workers) spec.cores = share;
  if (folder.stands_in()) return;  // then it gets from the others what they have read
  if (!orders.joins) spec.command.pop_back();
  if (orders.resumes) spec.command.emplace_back("--resume");
}

ProcessSpec process_of(const JoinOptions& options, const Found& found, const WorkFolder& folder,
                       const std::map<std::string, std::string>& kernels,
                       const cluster::Whereabouts& whereabouts) {
  const cluster::Enlisted& enlisted = found.place->enlisted();
  const auto cores = static_cast<std::int32_t>(cluster::available_cores().size());
  const cluster::WorkerEnvironment environment{.coordinator = found.invitation.coordinator,
                                               .worker = enlisted.worker,
                                               .workers = enlisted.workers,
                                               .lanes = options.lanes > 0 ? options.lanes : cores,
                                               .credentials = found.invitation.credentials,
                                               .whereabouts = whereabouts.address()};
  ProcessSpec spec{
      .command = {options.worker_program.string(), "--run", folder.root().string(), "--join"},
      .environment = to_variables(environment),
      .folder = {},
      .cores = {},
      .held_signals = cluster::worker_signals()};
  if (options.orders) follow(*options.orders, folder, spec, environment);
  spec.environment.insert(kernels.begin(), kernels.end());
  if (folder.stands_in()) spec.command.emplace_back("--apart");
  return spec;
}

ExitCode code_of(const ProcessEnd& end) {
  return end.exit_status ? static_cast<ExitCode>(*end.exit_status)
                         : static_cast<ExitCode>(128 + end.signal.value_or(SIGKILL));
}

class Teller final : public cluster::ProcessGroupObserver {
 public:
  explicit Teller(const JoinOptions& options) : options_(options) {}
  void on_line(std::size_t /*process*/, bool is_error, std::string_view line) override {
    options_.show(is_error, line);
  }
  void on_leash_end() override {
    let_go_ = true;
    options_.tell("the launcher has let go of this worker, which is killed");
  }
  bool let_go() const noexcept { return let_go_; }
  void on_stop(int /*signal*/, bool again) override {
    options_.tell(again ? "again: leaving at once"
                        : "leaving with the step; once more to leave at once");
  }

 private:
  const JoinOptions& options_;
  bool let_go_ = false;
};

// The worker from its start to its end; its launcher is told how it ends, unless it has brought
// that about, or the loss of what carried the worker has: SIGKILL would be this host's account of
// it.
Result<ProcessEnd> run_worker(const JoinOptions& options, const Found& found,
                              const WorkFolder& folder,
                              const std::map<std::string, std::string>& kernels,
                              Processes& processes, const Logger& log) {
  MUSTER_ASSIGN(const auto whereabouts, cluster::Whereabouts::create());
  Teller teller(options);
  MUSTER_ASSIGN(auto end,
                cluster::run_process_group(
                    {.processes = {process_of(options, found, folder, kernels, *whereabouts)},
                     .leash = options.leash},
                    processes, teller, log));
  cluster::ProcessGroupEnd::Member& worker = end.members.front();
  if (teller.let_go()) return worker.end;
  found.place->tell_end({worker.end, whereabouts->read(), std::move(worker.last_lines)},
                        Deadline::after(system_clock(), kGoodbye));
  return worker.end;
}

}  // namespace

Result<ExitCode> join_job(const JoinOptions& options, Processes& processes, Files& files,
                          const Logger& log) {
  const auto loop = net::create_loop("join", log);
  MUSTER_ASSIGN(const Found found, find_launcher(options, *loop, log));
  const net::StopAtEnd stop_first{*loop};
  const cluster::Enlisted& enlisted = found.place->enlisted();
  MUSTER_ASSIGN(const WorkFolder folder, WorkFolder::find(files, enlisted, options.scratch));
  if (options.orders && options.orders->needs_run_folder && folder.stands_in())
    return fail(ErrorCode::kInvalid,  // the next one would not either
                fmt::format("[worker] worker {} does not see the run's folder {} on this host, and "
                            "its job needs it there: `strategy.type: data` with a worker on the "
                            "launcher's host does not, any other needs run_folder on a shared file "
                            "system",
                            enlisted.worker, enlisted.run_folder));
  MUSTER_ASSIGN(const auto kernels, kernel_variables(options, folder, enlisted));
  options.tell(fmt::format(
      "worker {} of the job at {}{}", enlisted.worker, to_string(found.invitation.coordinator),
      folder.stands_in() ? "; its run folder is out of sight here, so this worker never saves"
                         : ""));
  MUSTER_ASSIGN(const ProcessEnd end, run_worker(options, found, folder, kernels, processes, log));
  // To its launcher the end has been told already.
  if (!options.orders) options.tell(end.exit_status == 0 ? "done" : describe(end));
  return code_of(end);
}

}  // namespace muster::app
