#include "muster/cli/launch_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <ostream>

#include "muster/base/process.h"
#include "muster/cli/application.h"
#include "muster/cluster/launcher.h"

namespace muster::cli {
namespace {

struct LaunchArguments {
  std::int32_t workers = 1;
  std::vector<std::string> command = {};
};

// The first rank's lines as they are, those of others with who wrote them.
class Lines final : public cluster::LaunchObserver {
 public:
  explicit Lines(Context& context) : context_(context) {}

  void on_line(Rank rank, bool is_error, std::string_view line) override {
    std::ostream& to = is_error ? context_.err : context_.out;
    if (rank != Rank{0}) to << fmt::format("[rank{}] ", to_int(rank));
    to << line << "\n" << std::flush;
  }

 private:
  Context& context_;
};

// Otherwise each process of libtorch computes on all cores.
void share_threads(std::int32_t workers, const Context& context,
                   std::map<std::string, std::string>& environment) {
  if (context.environment.contains("OMP_NUM_THREADS")) return;
  const auto cores = static_cast<std::int32_t>(cluster::available_cores().size());
  environment["OMP_NUM_THREADS"] = std::to_string(std::max(1, cores / workers));
}

// Where some have come to their end, to the launcher the others' is no loss any more.
Status all_ended_well(const cluster::JobEnd& end) {
  for (std::size_t rank = 0; rank < end.exit_statuses.size(); ++rank) {
    const int status = end.exit_statuses[rank];
    if (status == 0) continue;
    return fail(ErrorCode::kPeerLost,
                fmt::format("[launch] rank {} {} {} when others had come to their end", rank,
                            status < 0 ? "was killed by signal" : "ended with exit status",
                            std::abs(status)),
                Rank{static_cast<std::int32_t>(rank)});
  }
  return ok();
}

ExitCode run_command(const LaunchArguments& arguments, Context& context) {
  const Logger log = create_stderr_logger(context.log);
  const auto launcher = cluster::create_local_launcher(system_processes(), context.files, log);
  cluster::LaunchSpec spec;
  spec.command = arguments.command;
  share_threads(arguments.workers, context, spec.environment);
  spec.workers = spec.max_workers = spec.min_workers = arguments.workers;
  Lines lines(context);
  auto end = launcher->run(spec, lines);
  if (!end) return report(context, end.error());
  if (end->signal) return static_cast<ExitCode>(128 + *end->signal);
  if (!end->failure) return conclude(context, all_ended_well(*end));
  end->failure->action.clear();  // it speaks of fields of a job
  return report(context, fail(end->failure->error.code, describe(*end->failure)),
                ExitCode::kFailed);
}

}  // namespace

void add_launch_command(CLI::App& app, Context& context) {
  CLI::App& command =
      add_command(app, "launch", "Start a program that calls muster::join() on several processes",
                  {"muster launch -n 2 ./train", "muster launch -n 4 -- ./train --epochs 3"});
  const auto arguments = std::make_shared<LaunchArguments>();
  command
      .add_option("--workers,-w,-n,--np,--nproc-per-node,--nproc_per_node", arguments->workers,
                  "Processes on this machine")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  command
      .add_option("COMMAND", arguments->command,
                  "The program and its arguments; behind -- where these begin with a dash")
      ->required()
      ->type_name("");
  command.callback([arguments, &context] {
    context.action = [arguments, &context] { return run_command(*arguments, context); };
  });
}

}  // namespace muster::cli
