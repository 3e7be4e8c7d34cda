#include "muster/app/worker/program/worker_program.h"

#include <fmt/format.h>
#include <malloc.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "muster/app/rendezvous/store_errand.h"
#include "muster/app/version/version.h"
#include "muster/app/worker/describe.h"
#include "muster/app/worker/profile.h"
#include "muster/app/worker/program/bench_rank.h"
#include "muster/app/worker/worker.h"
#include "muster/base/exception_error.h"
#include "muster/base/process.h"
#include "muster/base/split_log.h"
#include "muster/job/load.h"

namespace muster::app {
namespace {

// A step frees its activations and the next one wants as much again. Handed back to the kernel in
// between they would return page by page, each one cleared: some 6,000 page faults a step.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

using Look = std::function<Result<std::string>(const job::JobSpec&)>;

Result<std::string> look_at(const Path& path, const Look& look, const ComponentsPtr& own) {
  try {
    MUSTER_ASSIGN(const auto job, job::load_job(system_files(), path, {.fields = own->fields}));
    return look(job.spec);
  } catch (const std::exception& fault) {
    return error_from_exception("worker/describe", fault);
  }
}

ExitCode tell(const Path& path, const Look& look, const ComponentsPtr& own) {
  const auto text = look_at(path, look, own);
  if (!text) {
    fmt::print("{}\n", text.error().message);  // the answer, for whoever asked
    return exit_code(text.error().code);
  }
  fmt::print("{}", *text);
  return ExitCode::kDone;
}

// Whoever asked decides by it whether more is wanted.
bool tell_and_wait(const std::string& counted) {
  fmt::print("{}", counted);
  std::fflush(stdout);
  wait_for_signal(SIGUSR1);
  return true;
}

// What the program is called with.
struct Call {
  WorkerOptions worker;
  std::string run_folder;
  std::string described;
  std::string profiled;
  ProfileOptions profile;
  bool waits = false;  // before the model is run
  BenchRankOptions bench;
  bool rendezvous = false;
};

void name_options(CLI::App& program, Call& call) {
  auto* run = program.add_option("--run", call.run_folder, "train: the run's folder");
  program.add_flag("--resume", call.worker.resume, "go on from the newest whole checkpoint");
  program.add_flag("--join", call.worker.join, "join a training that goes on");
  program.add_flag("--apart", call.worker.apart,
                   "the folder only stands in for the run's, on another host");
  program.add_option("--describe", call.described, "show what a resolved job would train")
      ->excludes(run);
  auto* profile =
      program
          .add_option("--profile", call.profiled,
                      "say in JSON what the blocks of a resolved job's model cost, for the planner")
          ->excludes(run);
  program
      .add_option("--micro-batches", call.profile.micro_batches,
                  "samples of the passes to measure besides")
      ->delimiter(',')
      ->needs(profile);
  program
      .add_flag("--wait", call.waits,
                "say first what follows from shapes alone, and run nothing before SIGUSR1")
      ->needs(profile);
  program
      .add_option("--at-once", call.profile.passes_at_once,
                  "passes to time at once, as the workers of a machine run them")
      ->check(CLI::PositiveNumber)
      ->needs(profile);
  program
      .add_option("--memory", call.profile.memory,
                  "bytes that may be taken; what needs more is counted from shapes")
      ->needs(profile);
  auto* bench =
      program.add_option("--bench-comm", call.bench.bench, "time collectives with the other ranks")
          ->excludes(run);
  program.add_flag("--json", call.bench.json, "answer in JSON")->needs(bench);
  program.add_option("--svg", call.bench.svg, "draw the bandwidths")->needs(bench);
  program
      .add_flag("--rendezvous", call.rendezvous,
                "meet processes that another launcher has started, as standard input says")
      ->excludes(run);
  program.set_version_flag("--version",
                           fmt::format("muster-worker {} (libtorch {})", version(), TORCH_VERSION));
  program.require_option(1, 5);
}

ExitCode answer(Call call) {
  const ComponentsPtr& own = call.worker.own;
  if (!call.bench.bench.empty()) return run_bench_rank(call.bench, system_files());
  if (call.rendezvous) return run_store_errand(std::cin);
  const Logger log = create_split_logger();
  if (!call.described.empty())
    return tell(
        call.described,
        [&](const job::JobSpec& job) { return describe_training(system_files(), job, own); }, own);
  if (call.waits) call.profile.goes_on = tell_and_wait;
  call.profile.give_back = [] { malloc_trim(0); };
  if (!call.profiled.empty())
    return tell(
        call.profiled,
        [&](const job::JobSpec& job) {
          return profile_training(system_files(), job, call.profile, own);
        },
        own);
  call.worker.run_folder = call.run_folder;
  call.worker.resume = call.worker.resume && !call.worker.join;
  return run_worker(call.worker, log);
}

// Nobody further out catches anything, and a process that aborts says neither whose fault it was
// nor what to do.
ExitCode answer_or_tell(Call call) {
  try {
    return answer(std::move(call));
  } catch (const std::exception& fault) {
    const Error error = error_from_exception("worker", fault);
    fmt::print(stderr, "{}\n", error.message);
    return exit_code(error.code);
  }
}

}  // namespace

bool is_worker_call(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  return first == "--run" || first == "--describe" || first == "--profile" ||
         first == "--bench-comm" || first == "--rendezvous";
}

int run_worker_program(int argc, char** argv, const ComponentsPtr& own) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond ulimit -f fails, and says so
  keep_freed_memory();
  CLI::App program("A training process of muster; `muster train` starts it.", "muster-worker");
  Call call;
  call.worker.own = own;
  name_options(program, call);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return static_cast<int>(program.exit(error) == 0 ? ExitCode::kDone : ExitCode::kUsage);
  }
  return static_cast<int>(answer_or_tell(std::move(call)));
}

}  // namespace muster::app
