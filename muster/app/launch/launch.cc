#include "muster/app/launch/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <memory>
#include <utility>

#include "muster/app/data/data_files.h"
#include "muster/app/join/instruction_set.h"
#include "muster/app/launch/host_watch.h"
#include "muster/app/launch/metrics_endpoint.h"
#include "muster/app/launch/next_steps.h"
#include "muster/app/launch/places.h"
#include "muster/app/launch/resume_check.h"
#include "muster/app/launch/run_observer.h"
#include "muster/app/launch/run_sinks.h"
#include "muster/app/launch/scale_rule.h"
#include "muster/app/launch/worker_request.h"
#include "muster/app/version/version.h"
#include "muster/base/shell_words.h"
#include "muster/checkpoint/best.h"
#include "muster/checkpoint/survey.h"
#include "muster/cluster/environment.h"
#include "muster/cluster/launcher.h"
#include "muster/net/reach.h"
#include "muster/observe/environment.h"
#include "muster/observe/report.h"
#include "muster/observe/run_folder.h"

namespace muster::app {
namespace {

using observe::RunFolder;

Result<RunFolder> folder_to_resume(Files& files, const job::Job& job, const Path& root,
                                   const Logger& log) {
  MUSTER_ASSIGN(RunFolder folder, RunFolder::open(files, root));
  MUSTER_TRY(check_saved(files, folder, job.spec.workers));
  MUSTER_ASSIGN(const auto changes, check_resumable(files, folder, job));
  for (const std::string& change : changes) log->warn("other than when the run began: {}", change);
  return folder;
}

// One that is nobody else's now, and that can be recorded.
struct OpenedRun {
  RunFolder folder;
  std::unique_ptr<FileLock> lock;
  RunSinks sinks;
};

Error cannot_keep(const job::JobSpec& job, Error why) {
  return with_context(std::move(why),
                      fmt::format("[train] run_folder: no run can be kept in {}", job.run_folder));
}

Status write_job(Files& files, const RunFolder& folder, const job::Job& job) {
  MUSTER_TRY(write_atomically(files, folder.job(), job.text));
  return write_atomically(files, folder.resolved_job(), job::to_yaml(job, true));
}

// Nothing of the run has changed where one of its files cannot be opened.
Result<OpenedRun> open_run(Files& files, const RunFolder& folder, const job::Job& job,
                           const Logger& log) {
  MUSTER_ASSIGN(auto lock, folder.lock(files));
  MUSTER_ASSIGN(auto sinks, open_run_sinks(files, folder, job.spec.trace.enabled, log));
  MUSTER_TRY(write_job(files, folder, job));
  return OpenedRun{folder, std::move(lock), std::move(sinks)};
}

Result<OpenedRun> new_run(Files& files, const job::Job& job, const Logger& log) {
  std::optional<OpenedRun> run;
  const auto folder =
      RunFolder::create(files, job.spec.run_folder, job.spec.name, system_clock().wall(),
                        system_entropy(), [&](const RunFolder& made) -> Status {
                          MUSTER_ASSIGN(run, open_run(files, made, job, log));
                          return ok();
                        });
  if (folder) return std::move(*run);
  return cannot_keep(job.spec, folder.error());
}

// The last folder on the way to `path` that is there.
Path nearest_there(Files& files, Path path) {
  while (!path.empty() && path != path.parent_path() && !files.exists(path))
    path = path.parent_path();
  return path.empty() ? Path(".") : path;
}

// Tries it where the folder of a new run would be, and leaves nothing.
Status check_new_folder(Files& files, const job::JobSpec& job) {
  const Path probe = nearest_there(files, Path(job.run_folder) / job.name) /
                     fmt::format(".muster-{:016x}", system_entropy().next());
  Status made = files.create_folders(probe);
  if (made) made = files.remove_all(probe);
  if (made) return made;
  return cannot_keep(job, std::move(made).error());
}

Result<OpenedRun> prepare_run(Files& files, const job::Job& job, const LaunchOptions& options,
                              const Logger& log) {
  if (!options.resume) return new_run(files, job, log);
  MUSTER_ASSIGN(RunFolder folder, folder_to_resume(files, job, *options.resume, log));
  return open_run(files, folder, job, log);
}

// Where workers that come from elsewhere find this launcher; nothing: none do.
Result<std::optional<net::Address>> listen_address(const job::JobSpec& job, const Places& places) {
  if (!job.workers.listen.empty()) {
    MUSTER_ASSIGN(auto said, net::parse_address(job.workers.listen));
    return std::optional(std::move(said));
  }
  if (places.remote) return std::optional(net::Address{places.address, 0});
  return std::optional<net::Address>();
}

// What such workers need.
Status admit_others(const job::Job& whole, const RunFolder& folder, const LaunchOptions& options,
                    const Places& places, cluster::LaunchSpec& spec) {
  const job::JobSpec& job = whole.spec;
  MUSTER_ASSIGN(spec.listen, listen_address(job, places));
  if (!spec.listen) return ok();
  if (!job.workers.listen.empty()) spec.credentials = folder.join_key();
  spec.enlistment.run_folder = (options.folder / folder.root()).string();
  spec.enlistment.job = job::to_yaml(whole, true);
  spec.version = build_version();
  if (!places.remote) return ok();
  const bool has_state_here =
      job.strategy.type == job::StrategyType::kData && places.has_worker_here;
  spec.remote = places.remote(spec.environment, {.resumes = options.resume.has_value(),
                                                 .needs_run_folder = !has_state_here});
  return ok();
}

// What to do where this host cannot listen at the address by which the others see it.
std::string about_address(const Places& places, const job::JobSpec& job, const Error& why) {
  const bool is_seen = places.remote && job.workers.listen.empty();
  if (!is_seen || why.code != ErrorCode::kUnavailable) return "";
  return fmt::format(
      "\n  other hosts see this one as {}; where that is not its own address, as behind a gateway, "
      "say the one by which they reach it: `--set workers.listen=10.0.0.5:0`",
      places.address);
}

// Before there is a run, as far as can be told then.
Status check_listen_address(const job::JobSpec& job, const Places& places) {
  MUSTER_ASSIGN(const auto address, listen_address(job, places));
  const Status free = address ? net::check_listen(*address) : ok();
  if (free) return ok();
  Error why = free.error();
  why.message += about_address(places, job, why);
  return job.workers.listen.empty() ? why : with_context(why, "[train] workers.listen");
}

// Asked on the launcher's loop, and gone with the spec. None where the job asks nobody.
std::function<bool(const cluster::WorkersWanted&)> request_workers(
    const job::AutoscalingSpec& scaling, const Path& credentials, const Logger& log) {
  if (scaling.request.empty()) return {};
  const auto request = std::make_shared<WorkerRequest>(
      WorkerRequestSpec{.command = scaling.request,
                        .environment = {{"MUSTER_JOIN_CREDENTIALS", credentials.string()}},
                        .limit = scaling.request_timeout,
                        .gap = scaling.request_every,
                        .patience = scaling.request_patience},
      system_clock(), system_processes(), log);
  return [request](const cluster::WorkersWanted& workers) { return request->ask(workers); };
}

Result<cluster::LaunchSpec> launch_spec(Files& files, const job::Job& whole,
                                        const RunFolder& folder, const LaunchOptions& options,
                                        const Places& places, const Logger& log) {
  const job::JobSpec& job = whole.spec;
  cluster::LaunchSpec spec;
  spec.command = {options.worker_program.string(), "--run", folder.root().string()};
  if (options.resume) spec.command.emplace_back("--resume");
  spec.workers = static_cast<std::int32_t>(job.workers.processes());
  spec.max_workers = static_cast<std::int32_t>(job.workers.max_workers);
  spec.max_restarts = static_cast<std::int32_t>(job.workers.max_restarts);
  spec.restart_window = job.workers.restart_window;
  spec.keeps_ranks = job.strategy.keeps_ranks();
  if (spec.keeps_ranks) spec.standbys = static_cast<std::int32_t>(job.workers.standbys);
  spec.join_flag = "--join";
  spec.held_signals = cluster::worker_signals();
  spec.scale = create_scale_rule(job.autoscaling, system_clock(), system_processes(), files, log);
  spec.request_workers = request_workers(job.autoscaling, options.folder / folder.join_key(), log);
  spec.scale_every = job.autoscaling.every;
  spec.watch_host = create_host_watch(job.preemption, system_processes(), files, log);
  spec.min_workers = static_cast<std::int32_t>(job.workers.min_workers);
  spec.majority = job.workers.majority;
  spec.log_folder = folder.logs();
  spec.join_timeout = job.workers.join_timeout;
  spec.heartbeat_timeout = job.workers.heartbeat_timeout;
  spec.data_patience = job.communication.timeout;
  // Members may take so long to connect.
  spec.calm = std::max(spec.calm, 2 * job.communication.timeout);
  spec.environment = instruction_set_variables(job.training.isa);
  spec.environment.insert(options.carried.environment.begin(), options.carried.environment.end());
  if (places.core_share) {
    const auto [number, of] = *places.core_share;
    const auto cores = cluster::available_cores();
    spec.cores = cluster::share_cores(cores, of)[static_cast<std::size_t>(number)];
    spec.pin = std::ssize(cores) >= of;
  }
  MUSTER_TRY(admit_others(whole, folder, options, places, spec));
  return spec;
}

// Schedulers retry on a signal's code. What failed on the way to its checkpoint, and said so, has a
// code of its own: it would fail again. What ends by order, at once, is no failure.
ExitCode code_of(const cluster::JobEnd& end, bool stopped_early) {
  const bool died = end.failure && end.failure->error.code == ErrorCode::kPeerLost;
  if (end.failure && !died) return exit_code(end.failure->error.code);
  // A scheduler may kill workers that do not end soon enough after its signal.
  if (end.signal) return static_cast<ExitCode>(128 + *end.signal);
  if (died) return ExitCode::kFailed;
  // A worker was told to stop, though not by its launcher.
  return stopped_early ? static_cast<ExitCode>(128 + end.worker_signal.value_or(SIGTERM))
                       : ExitCode::kDone;
}

bool found_nothing_whole(const cluster::JobEnd& end) {
  return end.failure && end.failure->error.code == ErrorCode::kNotFound;
}

// Whose weights are better than those that one takes without asking for the best. A folder that
// cannot be read has been told of.
std::optional<Step> best_before_the_newest(Files& files, const RunFolder& folder) {
  const auto found = checkpoint::survey(files, folder.checkpoints());
  if (!found) return std::nullopt;
  const auto* best = checkpoint::find_best(*found, checkpoint::newest_state(*found));
  const bool is_passed = best && std::ranges::any_of(*found, [&](const checkpoint::Found& other) {
                           return other.manifest && other.name.step > best->name.step;
                         });
  return is_passed ? std::optional(best->name.step) : std::nullopt;
}

// What the workers found wrong with the job is told at its place there.
std::string failure_text(const job::Job& job, const cluster::JobEnd& end) {
  if (!end.failure) return {};
  cluster::JobFailure failure = *end.failure;
  if (failure.error.code == ErrorCode::kInvalid)
    failure.error.message = job::with_place(job, failure.error.message);
  return describe(failure);
}

void record_environment(Files& files, const RunFolder& folder, const std::string& libtorch,
                        const Logger& log) {
  observe::Environment environment = observe::read_environment(files);
  environment.versions = {{"muster", std::string(version())}, {"compiler", __VERSION__}};
  if (!libtorch.empty()) environment.versions.emplace_back("libtorch", libtorch);
  if (auto status = folder.write_environment(files, environment); !status) {
    log->warn("{}", status.error().message);
  }
}

// Of a run that failed before anything was recorded there is nothing to show.
void report_on(Files& files, const RunFolder& folder, const std::string& program,
               RunObserver& observer) {
  const auto run = observe::read_run(files, folder);
  if (!run && run.error().code == ErrorCode::kNotFound) return;
  const Status written =
      run ? observe::write_report(files, *run, folder.report()) : Status(run.error());
  for (const std::string& line : run ? run->left_out : std::vector<std::string>())
    observer.tell(observe::Severity::kWarning, "not in the report: " + line);
  if (written && !run->started.run_folder.empty()) observer.tell_report();
  if (written) return;
  observer.tell(observe::Severity::kWarning,
                fmt::format("there is no report: {}; once that is mended: {} report {}",
                            written.error().message, program.empty() ? "muster" : program,
                            shell_quoted(folder.root().string())));
}

// Where Prometheus fetches the run's numbers; null where the job wants none.
struct Exposed {
  std::shared_ptr<observe::PrometheusSink> numbers;
  std::unique_ptr<HttpServer> endpoint;  // goes first: it reads the numbers
};

Result<Exposed> expose_metrics(const job::PrometheusSpec& spec, Files& files) {
  Exposed exposed;
  if (spec.listen.empty()) return exposed;
  exposed.numbers = observe::create_prometheus_sink();
  MUSTER_ASSIGN(exposed.endpoint,
                open_metrics_endpoint(
                    spec, [numbers = exposed.numbers] { return numbers->text(); }, files));
  return exposed;
}

// Before there is a run: what is wrong with the account is told at once. Nothing where the job
// sends nothing.
Result<MlflowAccess> access_to_mlflow(const job::MlflowSpec& spec, const LaunchOptions& options,
                                      Files& files, const Logger& log) {
  if (spec.tracking_uri.empty()) return MlflowAccess{};
  MUSTER_ASSIGN(MlflowAccess access, mlflow_access(spec, options.mlflow.environment, files));
  const std::string warning = warning_of_open_secret(spec, access);
  if (!warning.empty()) log->warn("{}", warning);
  return access;
}

void track(const job::Job& job, const MlflowAccess& access, const RunFolder& folder,
           const LaunchOptions& options, Files& files, RunObserver& observer) {
  const std::string& uri = job.spec.mlflow.tracking_uri;
  if (uri.empty()) return;
  observer.track(observe::create_mlflow_sink(open_mlflow_server(uri, access),
                                             describe_for_mlflow(job, folder, options.mlflow),
                                             files, system_clock(), observer.teller()));
}

}  // namespace

// A folder of a run that never was helps nobody, so all this comes before one is made.
Status check_startable(Files& files, const job::Job& job) {
  MUSTER_TRY(check_instruction_set(job.spec.training.isa));
  Status there = check_weights_are_there(files, job.spec.model);
  if (there) there = check_data_is_there(files, job.spec.data);
  if (there) return ok();
  return fail(there.error().code, job::with_place(job, there.error().message));
}

Status check_run_folder(Files& files, const job::Job& job, const std::optional<Path>& resume,
                        const Logger& log) {
  if (!resume) return check_new_folder(files, job.spec);
  MUSTER_ASSIGN(const RunFolder folder, folder_to_resume(files, job, *resume, log));
  MUSTER_ASSIGN(const auto lock, folder.lock(files));
  return ok();
}

Status check_hosts(const job::JobSpec& job, const LaunchOptions& options, const Logger& log) {
  MUSTER_ASSIGN(const Places places, find_places(job, options, log));
  return places.interrupted ? ok() : check_listen_address(job, places);
}

Result<NewestRun> newest_run(Files& files, const job::JobSpec& job) {
  NewestRun newest;
  MUSTER_ASSIGN(const RunFolder folder,
                RunFolder::newest_saved(files, job.run_folder, job.name, newest.passed_over));
  newest.folder = folder.root();
  return newest;
}

Result<ExitCode> launch(const job::Job& job, const LaunchOptions& options, const Logger& log) {
  Files& files = system_files();
  MUSTER_ASSIGN(const Places places, find_places(job.spec, options, log));
  if (places.interrupted) return static_cast<ExitCode>(128 + *places.interrupted);
  MUSTER_TRY(check_listen_address(job.spec, places));
  MUSTER_ASSIGN(const Exposed exposed, expose_metrics(job.spec.prometheus, files));
  MUSTER_ASSIGN(const MlflowAccess access, access_to_mlflow(job.spec.mlflow, options, files, log));
  MUSTER_ASSIGN(OpenedRun run, prepare_run(files, job, options, log));
  const RunFolder& folder = run.folder;
  RunObserver observer(folder, std::move(run.sinks), options.console, files, log);
  track(job, access, folder, options, files, observer);
  if (exposed.endpoint) observer.expose(exposed.numbers, exposed.endpoint->url() + "/metrics");
  record_environment(files, folder, {}, log);
  auto launcher = cluster::create_local_launcher(system_processes(), files, log);
  const auto spec = launch_spec(files, job, folder, options, places, log);
  if (!places.note.empty()) observer.tell(observe::Severity::kNote, places.note);
  auto end = spec ? launcher->run(*spec, observer) : Result<cluster::JobEnd>(spec.error());
  if (!end) {
    observer.fail(end.error().message + about_address(places, job.spec, end.error()));
    return exit_code(end.error().code);
  }
  // Somebody has deleted it, and checkpoints have come since: they need it to go on.
  if (!files.exists(folder.resolved_job()) && folder.has_checkpoint(files)) {
    if (const Status again = write_job(files, folder, job); !again)
      log->warn("{}", again.error().message);
  }
  const ExitCode code = code_of(*end, observer.stopped_early());
  const RunOutcome outcome{
      .code = code,
      .saved = folder.has_checkpoint(files),
      .ruined = found_nothing_whole(*end) && options.resume && !has_whole_checkpoint(files, folder),
      .patient = !observer.lost_patience(),
      .step = observer.last_step(),
      .best = best_before_the_newest(files, folder),
      .run = folder.root(),
      .program = options.program,
      .resume_command = options.resume_command,
      .extend_command = options.extend_command,
      .calmer_command = options.calmer_command,
      .launcher = options.agents ? options.agents->launcher : ""};
  observer.conclude(*end, failure_text(job, *end));
  observer.tell_trace();
  record_environment(files, folder, observer.libtorch(), log);
  report_on(files, folder, options.program, observer);
  observer.end_tracking(*end);
  const std::string next = options.program.empty() ? "" : next_steps(outcome, job.spec);
  if (!next.empty()) observer.tell(observe::Severity::kNote, next);
  const Status shown = observer.end_showing();
  if (shown || code != ExitCode::kDone) return code;
  log->error("{}", shown.error().message);
  return exit_code(shown.error().code);
}

}  // namespace muster::app
