#include "muster/cli/bench_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <ostream>
#include <span>

#include "muster/app/bench/comm_bench.h"
#include "muster/base/process.h"
#include "muster/base/units.h"
#include "muster/cli/application.h"
#include "muster/cli/run_ranks.h"
#include "muster/cluster/environment.h"
#include "muster/cluster/started_by.h"
#include "muster/comm/schedule.h"

namespace muster::cli {
namespace {

constexpr std::uint64_t kLargest = std::uint64_t{8} << 30;  // bytes of a tensor
constexpr std::int32_t kMostRanks = 1024;
constexpr std::uint64_t kRangeFactor = 4;  // from one size of a range to the next
constexpr Duration kLongestTime = std::chrono::hours(1);

struct BenchArguments {
  std::int32_t ranks = 0;  // 0: one a core, two at least
  std::vector<std::string> operations = {"all_reduce"};
  std::vector<std::string> sizes = {"1KiB-64MiB"};
  std::string dtype = "f32";
  std::string algorithm = "auto";
  std::string engine = "native";
  std::string transport = "auto";
  std::string time = "300 ms";
  bool foreign = false;
  bool json = false;
  std::string svg;
};

template <class T>
struct Named {
  std::string_view name;
  T value;
};

template <class T>
Result<T> one_of(std::string_view option, const std::string& word, std::span<const Named<T>> all) {
  std::vector<std::string_view> names;
  for (const Named<T>& one : all) {
    if (one.name == word) return one.value;
    names.push_back(one.name);
  }
  const std::string near = nearest(word, names);
  return fail(ErrorCode::kInvalid,
              fmt::format("{}: no such word, `{}`; {}one of {}", option, word,
                          near.empty() ? "" : fmt::format("did you mean `{}`? ", near),
                          fmt::join(names, ", ")));
}

constexpr Named<DType> kDTypes[] = {
    {"f32", DType::kF32}, {"f64", DType::kF64}, {"f16", DType::kF16}, {"bf16", DType::kBF16}};
constexpr Named<bool> kEngines[] = {{"native", false}, {"mpi", true}};  // whether over MPI
constexpr Named<comm::NativeTransport> kTransports[] = {
    {"auto", comm::NativeTransport::kAuto},
    {"shm", comm::NativeTransport::kSharedMemory},
    {"tcp", comm::NativeTransport::kTcp}};

Result<std::vector<app::Collective>> operations_of(const std::vector<std::string>& words) {
  std::vector<Named<app::Collective>> all;
  for (const app::Collective one : app::kAllCollectives) all.push_back({to_string(one), one});
  if (words == std::vector<std::string>{"all"})
    return std::vector(std::begin(app::kAllCollectives), std::end(app::kAllCollectives));
  std::vector<app::Collective> operations;
  for (const std::string& word : words) {
    MUSTER_ASSIGN(const auto operation, one_of<app::Collective>("--ops", word, all));
    operations.push_back(operation);
  }
  return operations;
}

Result<comm::Algorithm> algorithm_of(const std::string& word) {
  std::vector<Named<comm::Algorithm>> all;
  for (const auto one :
       {comm::Algorithm::kAuto, comm::Algorithm::kRing, comm::Algorithm::kBidirectionalRing,
        comm::Algorithm::kTree, comm::Algorithm::kDoubleTree, comm::Algorithm::kHalvingDoubling,
        comm::Algorithm::kDirect, comm::Algorithm::kHierarchical, comm::Algorithm::kPairwise,
        comm::Algorithm::kBruck})
    all.push_back({comm::name(one), one});
  return one_of<comm::Algorithm>("--algorithm", word, all);
}

Result<std::uint64_t> size_of_word(const std::string& word) {
  const auto bytes = parse_bytes(word);
  if (!bytes) return with_context(bytes.error(), "--sizes");
  if (*bytes >= 1 && *bytes <= kLargest) return *bytes;
  return fail(ErrorCode::kInvalid,
              fmt::format("--sizes: {} is not between 1 B and {}", word, format_bytes(kLargest)));
}

// Sizes, and ranges "1KiB-64MiB", of which each size is four times the one before.
Result<std::vector<std::uint64_t>> sizes_of(const std::vector<std::string>& words) {
  std::vector<std::uint64_t> sizes;
  for (const std::string& word : words) {
    const auto dash = word.find('-');
    MUSTER_ASSIGN(const std::uint64_t first, size_of_word(word.substr(0, dash)));
    if (dash == std::string::npos) {
      sizes.push_back(first);
      continue;
    }
    MUSTER_ASSIGN(const std::uint64_t last, size_of_word(word.substr(dash + 1)));
    if (last < first)
      return fail(ErrorCode::kInvalid,
                  fmt::format("--sizes: {} ends before it begins; write the smaller first", word));
    for (std::uint64_t size = first; size <= last; size *= kRangeFactor) sizes.push_back(size);
  }
  return sizes;
}

Result<app::CommBench> bench_of(const BenchArguments& arguments) {
  app::CommBench bench;
  MUSTER_ASSIGN(bench.operations, operations_of(arguments.operations));
  MUSTER_ASSIGN(bench.sizes, sizes_of(arguments.sizes));
  MUSTER_ASSIGN(bench.dtype, one_of<DType>("--dtype", arguments.dtype, kDTypes));
  MUSTER_ASSIGN(bench.algorithm, algorithm_of(arguments.algorithm));
  MUSTER_ASSIGN(bench.transport,
                one_of<comm::NativeTransport>("--transport", arguments.transport, kTransports));
  MUSTER_ASSIGN(bench.over_mpi, one_of<bool>("--engine", arguments.engine, kEngines));
  if (bench.over_mpi && bench.transport != comm::NativeTransport::kAuto)
    return fail(ErrorCode::kInvalid,
                fmt::format("--transport: {} is of --engine native; MPI has its own, leave it out",
                            arguments.transport));
  bench.foreign = arguments.foreign;
  const auto time = parse_duration(arguments.time);
  if (!time) return with_context(time.error(), "--time");
  if (*time <= Duration{0} || *time > kLongestTime)
    return fail(ErrorCode::kInvalid,
                fmt::format("--time: {} is not between 1 ns and 1 h", arguments.time));
  bench.time = *time;
  return bench;
}

// Whether a launcher has started this process as one of several ranks.
Result<bool> is_rank(const Context& context) {
  const auto variable = [&](const std::string& name) { return context.variable(name); };
  const auto own = cluster::read_environment(variable);
  if (own) return true;
  if (own.error().code != ErrorCode::kNotFound) return own.error();
  constexpr std::int32_t kParent = 0;  // only whether there is a launcher counts here
  const auto other = cluster::who_started(variable, kParent);
  if (other) return true;
  if (other.error().code == ErrorCode::kNotFound) return false;
  return other.error();
}

Status check_mpi(const app::CommBench& bench, bool is_rank, const Context& context) {
  if (!bench.over_mpi || (is_rank && mpi_module(context))) return ok();
  return fail(ErrorCode::kInvalid,
              "--engine mpi: no MPI has started this process; start it as `mpirun -n 4 muster "
              "bench comm --engine mpi`");
}

std::vector<std::string> rank_command(const Path& worker, const BenchArguments& arguments,
                                      const app::CommBench& bench, const Context& context) {
  std::vector<std::string> command = {worker.string(), "--bench-comm", to_text(bench)};
  if (context.answers_json(arguments.json)) command.emplace_back("--json");
  if (!arguments.svg.empty()) command.insert(command.end(), {"--svg", arguments.svg});
  return command;
}

ExitCode bench_comm(const BenchArguments& arguments, Context& context) {
  const auto bench = bench_of(arguments);
  if (!bench) return report(context, bench.error());
  const auto worker = worker_program(context);
  if (!worker) return report(context, worker.error());
  const auto command = rank_command(*worker, arguments, *bench, context);
  const auto rank = is_rank(context);
  if (!rank) return report(context, rank.error());
  if (const Status mpi = check_mpi(*bench, *rank, context); !mpi)
    return report(context, mpi.error());
  if (*rank) {
    if (arguments.ranks == 0) return report(context, become_program(command));
    return report(context, fail(ErrorCode::kInvalid,
                                "--workers: a launcher has started this process, and says how many "
                                "there are; leave it out"));
  }
  const auto cores = static_cast<std::int32_t>(cluster::available_cores().size());
  const std::int32_t ranks = arguments.ranks > 0 ? arguments.ranks : std::max(2, cores);
  const auto end = run_ranks({.command = command, .ranks = ranks}, context);
  if (!end) return report(context, end.error());
  if (end->signal) return static_cast<ExitCode>(128 + *end->signal);
  return end->status ? ExitCode::kDone : report(context, end->status.error());
}

void add_options(CLI::App& command, BenchArguments& arguments) {
  command.add_option("--workers,-w,-n,--np", arguments.ranks, "Ranks; one a core, two at least")
      ->check(CLI::Range(1, kMostRanks))
      ->type_name("N");
  command
      .add_option("--ops", arguments.operations,
                  "all_reduce, reduce_scatter, all_gather, broadcast, all_to_all, or all")
      ->delimiter(',')
      ->capture_default_str();
  command
      .add_option("--sizes", arguments.sizes,
                  "Of the tensors, and ranges of them in steps of four times")
      ->delimiter(',')
      ->capture_default_str();
  const auto add = [&command](const char* name, std::string& into, const char* help) {
    command.add_option(name, into, help)->capture_default_str();
  };
  add("--dtype", arguments.dtype, "f32, f64, f16 or bf16");
  add("--algorithm", arguments.algorithm,
      "auto, ring, bidirectional_ring, tree, double_tree, halving_doubling, direct, "
      "hierarchical, pairwise or bruck");
  add("--engine", arguments.engine, "native, or mpi: over the MPI that has started the ranks");
  add("--transport", arguments.transport, "auto, shm or tcp, with TLS");
  add("--time", arguments.time, "For each operation of each size, about");
  command.add_flag("--foreign", arguments.foreign,
                   "Tensors in memory of the caller's instead of the engine's");
  command.add_flag("--json", arguments.json, "Answer in JSON");
  command.add_option("--svg", arguments.svg, "Write a picture of the bandwidths to this file");
}

}  // namespace

void add_bench_command(CLI::App& app, Context& context) {
  CLI::App& command = add_command(
      app, "bench", "Measure what this machine or the network can do",
      {"muster bench comm", "muster bench comm --workers 4 --ops all --sizes 64KiB,1MiB,16MiB"});
  command.require_subcommand(1);
  CLI::App& comm = add_command(
      command, "comm",
      "Time collectives among ranks, verified, beside what memory or links could do; where a "
      "launcher (muster launch, torchrun, mpirun, srun) has started it, among its ranks",
      {"muster bench comm --workers 4 --ops all_reduce,all_to_all --svg comm.svg",
       "mpirun -n 8 muster bench comm --engine mpi",
       "muster launch --nnodes 2 --node-rank 0 --rdzv-endpoint head:29500 -n 1 muster bench comm"});
  const auto arguments = std::make_shared<BenchArguments>();
  add_options(comm, *arguments);
  comm.callback([arguments, &context] {
    context.action = [arguments, &context] { return bench_comm(*arguments, context); };
  });
}

}  // namespace muster::cli
