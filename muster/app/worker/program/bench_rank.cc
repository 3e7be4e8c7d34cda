#include "muster/app/worker/program/bench_rank.h"

#include <fmt/format.h>

#include <cstdio>

#include "muster/app/bench/comm_bench.h"
#include "muster/app/bench/comm_report.h"
#include "muster/app/rendezvous/join.h"

namespace muster::app {
namespace {

void say(const std::string& text) {
  fmt::print("{}", text);
  std::fflush(stdout);  // people watch
}

Status measure(const World& world, const CommBench& bench, const BenchRankOptions& options,
               Files& files) {
  CommReport report;
  const CommWatch watch{.begins =
                            [&](const CommSetting& setting) {
                              report.setting = setting;
                              if (!options.json) say(table_head(setting, bench));
                            },
                        .measured =
                            [&](const CommTiming& timing) {
                              report.timings.push_back(timing);
                              if (!options.json) say(table_row(timing, report.setting));
                            }};
  MUSTER_TRY(bench_comm(world, bench, watch));
  if (world.rank() != 0) return ok();
  if (options.json) say(to_json(report, bench));
  if (options.svg.empty()) return ok();
  MUSTER_TRY(write_atomically(files, options.svg, to_svg(report, bench)));
  if (!options.json) say(fmt::format("\nwritten: {}\n", options.svg.string()));
  return ok();
}

Status bench_rank(const BenchRankOptions& options, Files& files) {
  MUSTER_ASSIGN(const CommBench bench, comm_bench_from(options.bench));
  try {
    const World world = join({.transport = bench.transport, .over_mpi = bench.over_mpi});
    const Status done = measure(world, bench, options, files);
    if (done) return ok();
    const Error why = world.explain(done.error(), "measuring");
    world.fail(why);
    return why;
  } catch (const Failure& failure) {
    return failure.why();
  }
}

}  // namespace

ExitCode run_bench_rank(const BenchRankOptions& options, Files& files) {
  const Status done = bench_rank(options, files);
  if (done) return ExitCode::kDone;
  fmt::print(stderr, "error: {}\n", done.error().message);
  return exit_code(done.error().code);
}

}  // namespace muster::app
