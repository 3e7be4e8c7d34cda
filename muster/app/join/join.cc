#include "muster/app/join/join.h"

#include <fmt/format.h>

#include <csignal>
#include <future>

#include "muster/base/random.h"
#include "muster/cluster/enlist.h"
#include "muster/cluster/environment.h"
#include "muster/cluster/launcher.h"
#include "muster/cluster/worker_process.h"
#include "muster/observe/run_folder.h"

namespace muster::app {
namespace {

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

ProcessSpec process_of(const JoinOptions& options, const cluster::Enlisted& enlisted,
                       const WorkFolder& folder) {
  const auto cores = static_cast<std::int32_t>(cluster::available_cores().size());
  const cluster::WorkerEnvironment environment{.coordinator = options.coordinator,
                                               .worker = enlisted.worker,
                                               .workers = enlisted.workers,
                                               .lanes = options.lanes > 0 ? options.lanes : cores,
                                               .credentials = options.credentials};
  ProcessSpec spec{
      .command = {options.worker_program.string(), "--run", folder.root().string(), "--join"},
      .environment = to_variables(environment),
      .folder = {},
      .cores = {}};
  if (folder.stands_in()) spec.command.emplace_back("--apart");
  return spec;
}

ExitCode code_of(const ProcessEnd& end) {
  return end.exit_status ? static_cast<ExitCode>(*end.exit_status)
                         : static_cast<ExitCode>(128 + end.signal.value_or(SIGKILL));
}

// Nothing may call what is being destroyed.
struct StopAtEnd {
  net::SystemLoop& loop;
  ~StopAtEnd() { loop.stop(); }
};

// The worker from its start to its end, watched on the loop.
Result<ProcessEnd> run_worker(const JoinOptions& options, const ProcessSpec& spec, Rank rank,
                              Processes& processes, net::SystemLoop& loop, const Logger& log) {
  MUSTER_ASSIGN(auto process, processes.spawn(spec));
  Process& child = *process;
  cluster::WorkerProcess worker(rank, std::move(process), nullptr, {}, log);
  std::promise<void> over;
  bool is_over = false;  // the loop's thread
  bool told = false;
  const auto consider = [&] {
    const bool ends = worker.ended() && worker.output_ended();
    if (ends && !std::exchange(is_over, true)) over.set_value();
  };
  const StopAtEnd stop_first{loop};
  const auto signals = loop.on_signals({SIGINT, SIGTERM, SIGHUP}, [&](int) {
    const bool again = std::exchange(told, true);
    options.tell(again ? "again: leaving at once"
                       : "leaving with the step; once more to leave at once");
    if (const auto sent = child.signal(again ? SIGKILL : SIGTERM); !sent)
      log->warn("{}", sent.error().message);
  });
  loop.post([&] {
    worker.watch(loop,
                 {[&](bool, std::string_view line) { options.tell(line); }, consider, consider});
  });
  over.get_future().wait();  // bounded by the worker's life; its waits have deadlines
  return *worker.evidence.end;
}

}  // namespace

Result<ExitCode> join_job(const JoinOptions& options, Processes& processes, Files& files,
                          const Logger& log) {
  MUSTER_ASSIGN(const auto credentials, net::credentials_from_text(options.credentials));
  const auto loop = net::create_loop("join", log);
  MUSTER_ASSIGN(const auto network, net::create_network(*loop, credentials, {}, log));
  const cluster::WorkerInfo here = cluster::describe_this_process(-1);
  const Deadline deadline = Deadline::after(system_clock(), options.join_timeout);
  MUSTER_ASSIGN(const auto place,
                cluster::enlist(*network, options.coordinator, {here.host, here.pid}, deadline));
  const cluster::Enlisted& enlisted = place->enlisted();
  MUSTER_ASSIGN(const WorkFolder folder, WorkFolder::find(files, enlisted, options.scratch));
  options.tell(fmt::format(
      "worker {} of the job at {}{}", enlisted.worker, to_string(options.coordinator),
      folder.stands_in() ? "; its run folder is out of sight here, so this worker never saves"
                         : ""));
  MUSTER_ASSIGN(const ProcessEnd end, run_worker(options, process_of(options, enlisted, folder),
                                                 Rank{enlisted.worker}, processes, *loop, log));
  options.tell(end.exit_status == 0 ? "done" : describe(end));
  return code_of(end);
}

}  // namespace muster::app
