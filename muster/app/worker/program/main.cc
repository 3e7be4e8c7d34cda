// muster-worker: one training process. People start `muster`, which starts these.

#include <fmt/format.h>
#include <malloc.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <string>

#include "muster/app/worker/describe.h"
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

Result<std::string> description(const Path& path) {
  try {
    MUSTER_ASSIGN(const auto job, job::load_job(system_files(), path, {}));
    return app::describe_training(system_files(), job.spec);
  } catch (const std::exception& fault) {
    return fail(ErrorCode::kInternal, fault.what());
  }
}

ExitCode describe(const Path& path) {
  const auto text = description(path);
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
  bool resume = false;
  bool join = false;
  bool apart = false;
  auto* run = app.add_option("--run", run_folder, "train: the run's folder");
  app.add_flag("--resume", resume, "go on from the newest whole checkpoint");
  app.add_flag("--join", join, "join a training that goes on");
  app.add_flag("--apart", apart, "the folder only stands in for the run's, on another host");
  app.add_option("--describe", described, "show what a resolved job would train")->excludes(run);
  app.set_version_flag(
      "--version", fmt::format("muster-worker {} (libtorch {})", MUSTER_VERSION, TORCH_VERSION));
  app.require_option(1, 4);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return static_cast<int>(app.exit(error) == 0 ? ExitCode::kDone : ExitCode::kUsage);
  }
  const Logger log = create_split_logger();
  const ExitCode code =
      described.empty()
          ? app::run_worker(
                {.run_folder = run_folder, .resume = resume && !join, .join = join, .apart = apart},
                log)
          : describe(described);
  return static_cast<int>(code);
}
