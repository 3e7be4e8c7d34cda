// muster-worker: one training process. People start `muster`, which starts these.

#include <fmt/format.h>
#include <malloc.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "muster/app/worker/describe.h"
#include "muster/app/worker/profile.h"
#include "muster/app/worker/worker.h"
#include "muster/base/split_log.h"
#include "muster/job/load.h"

namespace {

using namespace muster;

// A step frees its activations and the next one wants as much again. Handed back to the kernel in
// between they would return page by page, each one cleared: some 6,000 page faults a step.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

using Look = std::function<Result<std::string>(const job::JobSpec&)>;

Result<std::string> look_at(const Path& path, const Look& look) {
  try {
    MUSTER_ASSIGN(const auto job, job::load_job(system_files(), path, {}));
    return look(job.spec);
  } catch (const std::exception& fault) {
    return fail(ErrorCode::kInternal, fault.what());
  }
}

ExitCode tell(const Path& path, const Look& look) {
  const auto text = look_at(path, look);
  if (!text) {
    fmt::print("{}\n", text.error().message);  // the answer, for whoever asked
    return exit_code(text.error().code);
  }
  fmt::print("{}", *text);
  return ExitCode::kDone;
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  CLI::App app("A training process of muster; `muster train` starts it.", "muster-worker");
  std::string run_folder;
  std::string described;
  std::string profiled;
  std::vector<std::int64_t> micro_batches;
  bool resume = false;
  bool join = false;
  bool apart = false;
  auto* run = app.add_option("--run", run_folder, "train: the run's folder");
  app.add_flag("--resume", resume, "go on from the newest whole checkpoint");
  app.add_flag("--join", join, "join a training that goes on");
  app.add_flag("--apart", apart, "the folder only stands in for the run's, on another host");
  app.add_option("--describe", described, "show what a resolved job would train")->excludes(run);
  auto* profile =
      app.add_option("--profile", profiled,
                     "say in JSON what the blocks of a resolved job's model cost, for the planner")
          ->excludes(run);
  app.add_option("--micro-batches", micro_batches, "samples of the passes to measure besides")
      ->delimiter(',')
      ->needs(profile);
  app.set_version_flag(
      "--version", fmt::format("muster-worker {} (libtorch {})", MUSTER_VERSION, TORCH_VERSION));
  app.require_option(1, 4);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return static_cast<int>(app.exit(error) == 0 ? ExitCode::kDone : ExitCode::kUsage);
  }
  const Logger log = create_split_logger();
  if (!described.empty())
    return static_cast<int>(tell(described, [](const job::JobSpec& job) {
      return app::describe_training(system_files(), job);
    }));
  if (!profiled.empty())
    return static_cast<int>(tell(profiled, [&](const job::JobSpec& job) {
      return app::profile_training(system_files(), job, micro_batches);
    }));
  return static_cast<int>(app::run_worker(
      {.run_folder = run_folder, .resume = resume && !join, .join = join, .apart = apart}, log));
}
