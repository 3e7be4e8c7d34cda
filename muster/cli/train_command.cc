#include "muster/cli/train_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <ostream>

#include "muster/app/launch/launch.h"
#include "muster/base/random.h"
#include "muster/cli/application.h"
#include "muster/cli/job_arguments.h"
#include "muster/cli/machine.h"

namespace muster::cli {
namespace {

constexpr std::chrono::minutes kDescribeLimit{1};

struct TrainArguments {
  JobArguments job;
  std::string workers;  // text: the field table checks it like any other value
  bool resume = false;
  std::string resume_from;
  bool dry_run = false;
};

Result<job::Job> load(const TrainArguments& arguments, const Context& context) {
  job::LoadOptions options = load_options(arguments.job, context);
  if (!arguments.workers.empty()) {
    options.flags.push_back({"--workers", "workers.count", arguments.workers});
  }
  return job::load_job(context.files, arguments.job.path, options);
}

// The same command line, with --resume.
std::string resume_command(const TrainArguments& arguments) {
  std::string command = fmt::format("muster train {} --resume", arguments.job.path);
  if (arguments.job.quick) command += " --quick";
  if (!arguments.workers.empty()) command += " --workers " + arguments.workers;
  for (const std::string& set : arguments.job.sets) command += fmt::format(" --set '{}'", set);
  return command;
}

Result<Path> worker_program(const Context& context) {
  const Path worker = context.program.parent_path() / "muster-worker";
  if (context.files.exists(worker)) return worker;
  return fail(ErrorCode::kUnavailable,
              fmt::format("[train] {} is missing: it lies beside muster where both were built with "
                          "libtorch; run script/quickstart, or cmake --build --preset release",
                          worker.string()));
}

Result<std::optional<Path>> run_to_resume(const TrainArguments& arguments, const job::JobSpec& job,
                                          Files& files) {
  if (!arguments.resume_from.empty()) return std::optional<Path>(arguments.resume_from);
  if (!arguments.resume) return std::optional<Path>();
  MUSTER_ASSIGN(Path newest, app::newest_run(files, job));
  return std::optional<Path>(std::move(newest));
}

observe::ConsoleOptions console_options(const job::JobSpec& job, const Context& context) {
  observe::ConsoleOptions console = observe::choose_console(
      context.out_is_terminal, [&](std::string_view name) -> std::optional<std::string> {
        const auto found = context.environment.find(std::string(name));
        if (found == context.environment.end()) return std::nullopt;
        return found->second;
      });
  const bool json = context.log == LogFormat::kJson || job.logging.format == job::LogStyle::kJson;
  if (json) console.format = observe::ConsoleFormat::kJson;
  console.logging_steps = job.logging.logging_steps;
  return console;
}

// The worker knows models; it is asked with the job as it would be trained.
ExitCode describe(const job::Job& job, const Path& worker, Context& context) {
  const Path folder = std::filesystem::temp_directory_path() /
                      fmt::format("muster-dry-run-{:016x}", system_entropy().next());
  const Path resolved = folder / "resolved.yaml";
  Status written = context.files.create_folders(folder);
  if (written) written = write_atomically(context.files, resolved, job::to_yaml(job, false));
  if (!written) return report(context, written.error());
  const auto answer =
      context.machine.output_of({worker.string(), "--describe", resolved.string()}, kDescribeLimit);
  static_cast<void>(context.files.remove_all(folder));
  if (!answer) return report(context, answer.error());
  context.out << *answer;
  return ExitCode::kDone;
}

ExitCode train(const TrainArguments& arguments, Context& context) {
  const auto job = load(arguments, context);
  if (!job) return report(context, job.error());
  const auto worker = worker_program(context);
  if (!worker) return report(context, worker.error());
  if (arguments.dry_run) return describe(*job, *worker, context);
  const auto resume = run_to_resume(arguments, job->spec, context.files);
  if (!resume) return report(context, resume.error());
  return app::launch(*job,
                     {.worker_program = *worker,
                      .resume = *resume,
                      .resume_command = resume_command(arguments),
                      .console = console_options(job->spec, context)},
                     create_stderr_logger(context.log));
}

}  // namespace

void add_train_command(CLI::App& app, Context& context) {
  auto& command =
      add_command(app, "train", "Train a model as a job file says",
                  {"muster train jobs/fashion.yaml --workers 2",
                   "muster train jobs/gpt.yaml --resume --set training.max_steps=2000"});
  auto arguments = std::make_shared<TrainArguments>();
  add_job_arguments(command, arguments->job);
  command
      .add_option("--workers,-w,-n,--np,--nproc-per-node,--nproc_per_node", arguments->workers,
                  "Training processes on this machine")
      ->type_name("N");
  command.add_flag("--resume", arguments->resume,
                   "Go on from the newest whole checkpoint of the job's latest run");
  command
      .add_option("--resume-from", arguments->resume_from,
                  "Go on with this run folder instead of the latest")
      ->type_name("FOLDER");
  command.add_flag("--dry-run", arguments->dry_run,
                   "Show layout, model size and memory; train nothing");
  command.callback([arguments, &context] {
    context.action = [arguments, &context] { return train(*arguments, context); };
  });
}

}  // namespace muster::cli
