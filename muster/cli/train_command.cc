#include "muster/cli/train_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <span>
#include <sstream>
#include <vector>

#include "muster/app/launch/launch.h"
#include "muster/app/launch/next_steps.h"
#include "muster/app/version/version.h"
#include "muster/base/shell_words.h"
#include "muster/base/text_width.h"
#include "muster/cli/application.h"
#include "muster/cli/ask_worker.h"
#include "muster/cli/chosen_job.h"
#include "muster/cli/find_run.h"
#include "muster/cli/job_arguments.h"
#include "muster/cli/json_line.h"
#include "muster/cli/machine.h"
#include "muster/cli/page_server.h"
#include "muster/cli/run_options.h"
#include "muster/cli/started_train.h"
#include "muster/job/variables.h"
#include "muster/observe/run_folder.h"

namespace muster::cli {
namespace {

constexpr std::chrono::minutes kDescribeLimit{1};

struct TrainArguments {
  JobArguments job;
  std::string workers;  // text: the field table checks it like any other value
  bool resume = false;
  std::string resume_from;
  bool by_run = false;                   // as `muster resume`, which needs no job file
  std::vector<std::string> passed_over;  // fields of that run's job that do not count
  bool dry_run = false;
  bool page = false;
  bool trace = false;
  HostArguments hosts;
  // Of launchers that are started on every host: accepted where they say one host, this one.
  std::string nodes;
  std::string node_rank;
  std::string rendezvous;
};

// "localhost:29500" and the like.
bool is_this_host(const std::string& endpoint) {
  const std::string name = endpoint.substr(0, endpoint.rfind(':'));
  return name.empty() || name == "localhost" || name == "127.0.0.1";
}

Status check_one_host(const TrainArguments& arguments) {
  const auto is = [](const std::string& value, std::string_view only) {
    return value.empty() || value == only;
  };
  if (is(arguments.nodes, "1") && is(arguments.node_rank, "0") &&
      is_this_host(arguments.rendezvous)) {
    return ok();
  }
  return fail(ErrorCode::kUnsupported,
              "[train] one command trains on several hosts, and starts what it needs there: "
              "`--hosts localhost:2,node7:4`; srun, mpirun and torchrun start it as it is, on "
              "each host, and muster submit has a scheduler do so; --nnodes 1, --node-rank 0 and "
              "localhost as "
              "--rdzv-endpoint are accepted");
}

// Who has started this process.
struct Start {
  std::optional<cluster::StartedBy> by;  // another launcher; nothing: a person or a script
  app::Gathering* gathering = nullptr;   // of its other processes, for which this one launches
  // That launcher, where it has started others as well; null: it has not.
  const cluster::StartedBy* others() const { return gathering != nullptr ? &*by : nullptr; }
};

// `by`: who has started this process and others for the job; null: nobody.
Result<PlanRequest> request_of(const TrainArguments& arguments, const cluster::StartedBy* by,
                               const Context& context) {
  PlanRequest request{.job = arguments.job.path, .options = load_options(arguments.job, context)};
  request.options.flags_only = arguments.passed_over;
  if (arguments.trace) request.options.flags.push_back({"--trace", "trace.enabled", "true"});
  add_workers(arguments.workers, context, request.options);
  MUSTER_TRY(add_hosts(arguments.hosts, context, request.options));
  if (by == nullptr) return request;
  request.options.started_by = by->launcher;
  request.other_hosts = true;
  if (arguments.workers.empty())
    add_workers_for(by->ranks, by->launcher, std::to_string(by->ranks), request.options);
  return request;
}

// What this process is to train, of one reading of the job file.
struct ReadJob {
  PlanRequest request;
  Result<job::CheckedJob> checked;
};

// `by`: as above.
Result<ReadJob> read_job(const TrainArguments& arguments, const cluster::StartedBy* by,
                         const Context& context) {
  MUSTER_ASSIGN(PlanRequest request, request_of(arguments, by, context));
  auto checked = check_job_file(request.job, request.options, context);
  return ReadJob{std::move(request), std::move(checked)};
}

// Said before anything is started; what else is amiss with an MPI, or NCCL, its workers find out.
Status check_engine(const job::JobSpec& job, const Context& context) {
  const job::EngineKind engine = job.communication.engine;
  if (engine != job::EngineKind::kMpi && engine != job::EngineKind::kNccl) return ok();
  const auto module = engine == job::EngineKind::kMpi ? mpi_module(context) : nccl_module(context);
  return module ? ok() : Status(module.error());
}

// How the person calls this program: by its name where the PATH leads to it, else by its place.
std::string program_word(const Context& context) {
  std::string name = context.program.filename().string();
  for (const Path& folder : context.program_folders())
    if (context.machine.is_same_file(folder / name, context.program)) return name;
  const Path near = context.program.lexically_relative(context.machine.folder());
  const bool below = !near.empty() && *near.begin() != "..";
  return shell_quoted((below ? near : context.program).string());
}

// What came through a pipe cannot be read again.
bool can_be_read_again(const std::string& path, const Context& context) {
  return !path.starts_with("/dev/") && !path.starts_with("/proc/") &&
         context.machine.is_regular_file(path);
}

void give(const Result<ReadJob>& read, GivenToRank& given) {
  std::string& mistake = given.job.mistake;
  if (!read) {
    mistake = read.error().message;
  } else if (!read->checked) {
    mistake = read->checked.error().message;
  } else if (!read->checked->job) {
    mistake = render(read->checked->errors);
  } else {
    given.job.values = job::values_of(*read->checked->job);
    given.join_timeout = read->checked->job->spec.workers.join_timeout;
  }
}

// What this process is to train, without what follows from its host; nothing where another reading
// of the file would find it empty. `read` becomes what was read for it, if that is what is trained.
GivenToRank given_job(const TrainArguments& arguments, const cluster::StartedBy& by,
                      std::optional<Result<ReadJob>>& read, const Context& context) {
  const std::string& path = arguments.job.path;
  GivenToRank given{.job = {.file = context.absolute(path).lexically_normal().string()}};
  if (context.files.exists(path) && !can_be_read_again(path, context)) return given;
  if (depends_on_cores(arguments.workers)) {
    TrainArguments on_any_host = arguments;
    on_any_host.workers.clear();
    give(read_job(on_any_host, &by, context), given);
  } else {
    give(read.emplace(read_job(arguments, &by, context)), given);
  }
  return given;
}

// The run's job is where rank 0 is: what is said besides. How long its ranks wait for each other
// those know that see the run.
GivenToRank given_job_of_run(const RunArguments& run, const TrainArguments& arguments,
                             Context& context) {
  cluster::GivenJob given{
      .file = "run " + run.run,
      .values = {{"--set", fmt::format("{}", fmt::join(arguments.job.sets, " "))},
                 {"--workers", arguments.workers}}};
  for (const auto& [name, value] : context.environment)
    if (name.starts_with(job::kVariablePrefix) &&
        job::field_of_variable(*context.fields, job::normalised(name)) != nullptr)
      given.values.emplace_back(name, value);
  const auto folder = find_run(run, context);
  if (!folder) return {.job = std::move(given)};
  const auto job =
      job::load_job(context.files, folder->resolved_job(), load_options(arguments.job, context));
  if (!job) return {.job = std::move(given)};
  return {.job = std::move(given), .join_timeout = job->spec.workers.join_timeout};
}

// What a command line that goes on leaves out, for another value may follow.
enum class Without { kNothing, kLength, kLearningRate };

bool leaves_out(Without what, std::string_view set) {
  if (what == Without::kLearningRate) return set.starts_with("optimizer.learning_rate=");
  return what == Without::kLength &&
         (set.starts_with("training.epochs=") || set.starts_with("training.max_steps="));
}

// The last of several counts.
bool is_set_again(std::string_view set, std::span<const std::string> later) {
  const std::string_view name = set.substr(0, set.find('='));
  return std::ranges::any_of(
      later, [name](std::string_view other) { return other.substr(0, other.find('=')) == name; });
}

// What a command line that goes on has in common with this one.
std::string other_words(const TrainArguments& arguments, Without what) {
  std::string words;
  if (!arguments.workers.empty()) words += " --workers " + arguments.workers;
  const HostArguments& hosts = arguments.hosts;
  if (!hosts.hosts.empty()) words += " -H " + shell_quoted(hosts.hosts);
  if (!hosts.file.empty()) words += " --hostfile " + shell_quoted(hosts.file);
  for (const std::string& each : hosts.exports) words += " -x " + shell_quoted(each);
  const auto& sets = arguments.job.sets;
  for (auto set = sets.begin(); set != sets.end(); ++set) {
    if (!leaves_out(what, *set) && !is_set_again(*set, {std::next(set), sets.end()}))
      words += " --set " + shell_quoted(*set);
  }
  return words;
}

// The same command line with --resume. Where the job file is gone, the run's own has the same name
// and values.
std::string resume_command(const TrainArguments& arguments, const job::JobSpec& job,
                           const std::string& program, const Context& context, Without what) {
  if (arguments.by_run)
    return fmt::format("{} resume {}{}", program, shell_quoted(arguments.resume_from),
                       other_words(arguments, what));
  const bool again = can_be_read_again(arguments.job.path, context);
  const Path kept = Path(job.run_folder) / job.name / "latest" / "resolved.yaml";
  std::string command =
      fmt::format("{} train {}", program, shell_quoted(again ? arguments.job.path : kept.string()));
  command += arguments.resume_from.empty()
                 ? std::string(" --resume")
                 : " --resume-from " + shell_quoted(arguments.resume_from);
  if (arguments.job.quick && again) command += " --quick";
  return command + other_words(arguments, what);
}

Result<std::optional<Path>> run_to_resume(const TrainArguments& arguments, const job::JobSpec& job,
                                          Context& context) {
  if (!arguments.resume_from.empty()) {
    MUSTER_ASSIGN(const auto run,
                  observe::RunFolder::open(context.files, Path(arguments.resume_from)));
    return std::optional<Path>(run.root());
  }
  if (!arguments.resume) return std::optional<Path>();
  MUSTER_ASSIGN(app::NewestRun newest, app::newest_run(context.files, job));
  for (const Path& newer : newest.passed_over) {
    warn(context, fmt::format("{} is newer, but has no checkpoint; going on with {}",
                              newer.string(), newest.folder.string()));
  }
  return std::optional<Path>(std::move(newest.folder));
}

// "model       a gpt" is {"model": "a gpt"}.
nlohmann::ordered_json as_json(const std::string& description) {
  nlohmann::ordered_json object;
  std::istringstream lines(description);
  for (std::string key, value; lines >> key && std::getline(lines >> std::ws, value);)
    object[key] = value;
  return object;
}

// Values that are too long for a terminal go on below themselves.
std::string fitted_values(const std::string& description, std::size_t width) {
  std::istringstream lines(description);
  std::string text;
  for (std::string line; std::getline(lines, line); text += "\n") {
    const auto value = line.find_first_not_of(' ', std::min(line.find(' '), line.size()));
    if (width == 0 || value == line.npos || display_width(line) <= width)
      text += line;
    else
      text += line.substr(0, value) + wrapped_behind(line.substr(value), width, value);
  }
  return text;
}

// The worker knows models.
ExitCode describe(const job::Job& job, const Path& worker, Context& context) {
  const auto answer = ask_worker(worker, "--describe", job, {}, kDescribeLimit, context);
  if (!answer) return report(context, answer.error());
  context.out << (context.log == LogFormat::kJson ? json_line(as_json(*answer))
                                                  : fitted_values(*answer, context.width_of_out()));
  return ExitCode::kDone;
}

// Null: nobody wants one.
Result<std::unique_ptr<PageServer>> open_page(const TrainArguments& arguments,
                                              const job::JobSpec& job, Context& context,
                                              const Logger& log) {
  if (!arguments.page) return std::unique_ptr<PageServer>();
  MUSTER_ASSIGN(auto pages, PageServer::open(context.files, job.run_folder, 0));
  log->info("page {}", pages->url());
  return pages;
}

Result<std::optional<app::AgentWorkers>> await(const Start& start, const job::JobSpec& job) {
  if (start.others() == nullptr) return std::optional<app::AgentWorkers>();
  MUSTER_ASSIGN(auto all, start.gathering->wait_for_all(job.workers.join_timeout));
  return std::optional(std::move(all));
}

ExitCode train_here(const TrainArguments& arguments, const Start& start, Result<ReadJob> read,
                    Context& context) {
  if (const Status one_host = check_one_host(arguments); !one_host) {
    return report(context, one_host.error());
  }
  const auto carried = carried_along(arguments.hosts.exports, context);
  if (!carried) return report(context, carried.error());
  if (!read) return report(context, read.error());
  const auto written = job_or_report(std::move(read->checked), context);
  if (!written) return written.error();
  const auto worker = worker_program(context);
  if (!worker) return report(context, worker.error());
  const Status reached = check_engine(written->spec, context);
  if (!reached) return report(context, reached.error());
  const Status startable = app::check_startable(context.files, *written);
  if (!startable) return report(context, startable.error());
  const auto resume = run_to_resume(arguments, written->spec, context);
  if (!resume) return report(context, resume.error());
  const auto chosen = choose_values(read->request, *written, start.others(), *resume, context);
  if (!chosen) return report(context, chosen.error());
  const Logger log = context.logger();
  for (const std::string& why : chosen->why) log->info("{}", why);
  const job::Job& job = chosen->job;
  auto agents = await(start, job.spec);
  if (!agents) return report(context, agents.error());
  if (*agents && (*agents)->interrupted)
    return static_cast<ExitCode>(128 + *(*agents)->interrupted);
  if (arguments.dry_run) {
    Status ready = app::check_run_folder(context.files, job, *resume, log);
    if (ready)
      ready = app::check_hosts(job.spec, {.carried = *carried, .agents = *std::move(agents)}, log);
    return ready ? describe(job, *worker, context) : report(context, ready.error());
  }
  const auto pages = open_page(arguments, job.spec, context, log);
  if (!pages) return report(context, pages.error());
  const std::string program = program_word(context);
  const auto code = app::launch(
      job,
      {.worker_program = *worker,
       .resume = *resume,
       .program = program,
       .resume_command = resume_command(arguments, job.spec, program, context, Without::kNothing),
       .extend_command = resume_command(arguments, job.spec, program, context, Without::kLength),
       .calmer_command =
           resume_command(arguments, job.spec, program, context, Without::kLearningRate),
       .carried = *carried,
       .agents = *std::move(agents),
       .started_by = start.by ? start.by->launcher : "",
       .folder = context.machine.folder(),
       .console = console_options(job.spec, context),
       .mlflow = {context.environment, std::string(app::commit())}},
      log);
  return code ? *code : report(context, code.error());
}

// Alone, or as rank 0 of processes that another launcher has started; what the others do is theirs.
ExitCode as_started(Context& context,
                    const std::function<GivenToRank(const cluster::StartedBy& by)>& given,
                    const std::function<ExitCode(const Start& start)>& train) {
  const auto by = started_by_launcher(context);
  if (!by) return report(context, by.error());
  if (!*by || (*by)->ranks == 1) return train({.by = *by});
  return train_with_others(
      **by, given(**by),
      [&](app::Gathering& gathering) { return train({.by = *by, .gathering = &gathering}); },
      context);
}

ExitCode train(const TrainArguments& arguments, Context& context) {
  std::optional<Result<ReadJob>> read;
  return as_started(
      context,
      [&](const cluster::StartedBy& by) { return given_job(arguments, by, read, context); },
      [&](const Start& start) {
        if (!read) read = read_job(arguments, start.others(), context);
        return train_here(arguments, start, *std::move(read), context);
      });
}

void add_one_host_options(CLI::App& command, TrainArguments& arguments) {
  const auto add = [&command](const char* names, std::string& into, const char* help) {
    command.add_option(names, into, help)->type_name("")->group("As other launchers have them");
  };
  add("--nnodes", arguments.nodes, "1; for several see --hosts");
  add("--node-rank,--node_rank", arguments.node_rank, "0: this host");
  add("--rdzv-endpoint,--rdzv_endpoint", arguments.rendezvous, "localhost; not needed on one host");
  command.add_flag("--standalone")
      ->description("As it is anyway")
      ->group("As other launchers have them");
}

// How many workers there were at most is no wish of the person where none come from elsewhere or by
// themselves: it followed from how many there were.
std::vector<std::string> followed_from_workers(const job::JobSpec& kept,
                                               const std::vector<std::string>& sets) {
  constexpr std::string_view kMost = "workers.max_workers";
  const bool wished =
      std::ranges::any_of(sets, [&](const auto& set) { return set.starts_with(kMost); });
  const bool alone =
      kept.workers.listen.empty() && kept.autoscaling.policy == job::AutoscalingPolicy::kNone;
  if (wished || !alone) return {};
  return {std::string(kMost)};
}

// A run goes on by the job that it keeps.
ExitCode resume(const RunArguments& run, TrainArguments& arguments, Context& context) {
  const auto given = [&](const cluster::StartedBy&) {
    return given_job_of_run(run, arguments, context);
  };
  return as_started(context, given, [&](const Start& start) {
    const auto folder = find_run(run, context);
    if (!folder) return report(context, folder.error());
    arguments.job.path = folder->resolved_job().native();
    arguments.resume_from = folder->root().native();
    arguments.by_run = true;
    if (const auto kept = job::load_job(context.files, arguments.job.path, {}))
      arguments.passed_over = followed_from_workers(kept->spec, arguments.job.sets);
    return train_here(arguments, start, read_job(arguments, start.others(), context), context);
  });
}

}  // namespace

void add_resume_command(CLI::App& app, Context& context) {
  auto& command = add_command(
      app, "resume", "Go on with a run, from its newest whole checkpoint",
      {"muster resume fashion --workers 4", "muster resume 3f09a1 --set training.epochs=20"});
  auto run = std::make_shared<RunArguments>();
  auto arguments = std::make_shared<TrainArguments>();
  add_run_arguments(command, *run);
  add_set_option(command, arguments->job);
  add_workers_option(command, arguments->workers);
  add_hosts_options(command, arguments->hosts);
  command.add_flag("--dry-run", arguments->dry_run,
                   "Show layout, model size and memory; train nothing");
  command.callback([run, arguments, &context] {
    context.action = [run, arguments, &context] { return resume(*run, *arguments, context); };
  });
}

void add_train_command(CLI::App& app, Context& context) {
  auto& command =
      add_command(app, "train", "Train a model as a job file says",
                  {"muster train jobs/fashion.yaml --workers 2",
                   "muster train jobs/fashion.yaml --hosts localhost,node7:2,node8",
                   "srun --ntasks 8 muster train jobs/gpt.yaml",
                   "muster train jobs/gpt.yaml --resume --set training.max_steps=2000"});
  auto arguments = std::make_shared<TrainArguments>();
  add_job_arguments(command, arguments->job);
  add_workers_option(command, arguments->workers);
  auto* latest = command.add_flag("--resume", arguments->resume,
                                  "Go on from the newest whole checkpoint of the job's latest run");
  command
      .add_option("--resume-from", arguments->resume_from,
                  "Go on with this run folder instead of the latest")
      ->type_name("FOLDER")
      ->excludes(latest)
      ->check(expects("a run folder"));
  command.add_flag("--dry-run", arguments->dry_run,
                   "Show layout, model size and memory; train nothing");
  command.add_flag("--page", arguments->page,
                   "Show this run, and others beside it, in browsers on this host while it trains");
  command.add_flag("--trace", arguments->trace,
                   "Write a timeline of what every worker does, for ui.perfetto.dev");
  add_hosts_options(command, arguments->hosts);
  add_one_host_options(command, *arguments);
  command.callback([arguments, &context] {
    context.action = [arguments, &context] { return train(*arguments, context); };
  });
}

}  // namespace muster::cli
