// Times a collective of f32 among forked processes, verified. One line per size:
// "<bytes> <microseconds of each repetition …>", of the rank for which each took
// longest: the root of a broadcast may be done long before the others.
// Usage: muster_bench_collectives WAY RANKS OPERATION BYTES:REPETITIONS…
// WAY: memory, all on one host, in buffers that the engine handed out; foreign, the same in buffers
// of the caller's own; slots and reads, as foreign, but never and always read where they lie; tcp,
// TLS between all; mixed, TLS, with memory inside each of two hosts that the first and the second
// half of the ranks say they are on.
// Ranks are pinned to a core each where there are as many.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/collectives/operations.h"
#include "muster/comm/backend/native/native.h"
#include "muster/net/credentials.h"
#include "muster/net/network.h"
#include "tests/ranks/processes/rank_processes.h"

namespace muster::comm {
namespace {

struct Size {
  std::size_t bytes;
  int repetitions;
};

// Empty where an operation is in place: then the output is the input as well.
struct Tensors {
  std::span<std::byte> output;
  std::span<std::byte> input;
};

TensorView view_of(std::span<std::byte> memory) {
  return {DType::kF32, {static_cast<std::int64_t>(memory.size() / sizeof(float))}, memory};
}

Op all_reduce(const Tensors& t) { return AllReduce{view_of(t.output)}; }
Op reduce_scatter(const Tensors& t) { return ReduceScatter{view_of(t.output), view_of(t.input)}; }
Op all_gather(const Tensors& t) { return AllGather{view_of(t.output), view_of(t.input)}; }
Op all_to_all(const Tensors& t) { return AllToAll{view_of(t.output), view_of(t.input)}; }
Op broadcast(const Tensors& t) { return Broadcast{view_of(t.output)}; }

constexpr Op (*kMakers[])(const Tensors&) = {all_reduce, reduce_scatter, all_gather, all_to_all,
                                             broadcast};
static_assert(std::size(kMakers) == kOperationCount);

struct Case {
  int which;  // of kOperations
  std::size_t block;
  int rank;
  int ranks;

  const Operation& operation() const { return kOperations[which]; }
  std::size_t input_bytes() const {
    return input_elements(&operation(), block, ranks) * sizeof(float);
  }
  std::size_t output_bytes() const {
    return output_elements(&operation(), block, ranks) * sizeof(float);
  }
};

float* numbers(std::span<std::byte> memory) { return reinterpret_cast<float*>(memory.data()); }

// Microseconds; none: it failed, or the result is wrong.
std::optional<double> measure_once(Communicator& world, const Case& what, const Tensors& tensors) {
  float* const output = numbers(tensors.output);
  float* const input = what.operation().in_place ? output : numbers(tensors.input);
  fill_input(&what.operation(), input, what.block, what.rank, what.ranks);
  clear_output(&what.operation(), output, what.block, what.ranks);
  if (!world.submit(Barrier{}, {}).wait()) return std::nullopt;
  const TimePoint start = system_clock().now();
  const Status status = world.submit(kMakers[what.which](tensors), {}).wait();
  const Duration took = system_clock().now() - start;
  if (!status || !is_output_right(&what.operation(), output, what.block, what.rank, what.ranks))
    return std::nullopt;
  return static_cast<double>(took.count()) / 1000.0;
}

bool measure(Communicator& world, const Case& what, const Size& size, const Tensors& tensors) {
  std::vector<float> times;
  for (int i = 0; i < size.repetitions + 3; ++i) {  // the first three warm up
    const auto took = measure_once(world, what, tensors);
    if (!took) return false;
    if (i >= 3) times.push_back(static_cast<float>(*took));
  }
  const TensorView all = view_of(std::as_writable_bytes(std::span(times)));
  if (!world.submit(AllReduce{all, Reduce::kMax}, {}).wait()) return false;
  if (what.rank == 0) fmt::print("{} {:.2f}\n", size.bytes, fmt::join(times, " "));
  return true;
}

bool measure(Communicator& world, int which, const Size& size, bool foreign) {
  const Group& group = world.group();
  const Case what{which, block_of(size.bytes, group.size), to_int(group.rank), group.size};
  const std::size_t input_bytes = what.operation().in_place ? 0 : what.input_bytes();
  if (foreign) {
    std::vector<std::byte> output(what.output_bytes());
    std::vector<std::byte> input(input_bytes);
    return measure(world, what, size, {output, input});
  }
  const auto output = world.allocate(what.output_bytes());
  if (!output) return false;
  if (input_bytes == 0) return measure(world, what, size, {**output, {}});
  const auto input = world.allocate(input_bytes);
  return input && measure(world, what, size, {**output, **input});
}

void pin(const Group& group) {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0 || group.size > CPU_COUNT(&cores)) return;
  int core = 0;
  for (int before = to_int(group.rank); before > 0 || !CPU_ISSET(core, &cores); ++core)
    if (CPU_ISSET(core, &cores)) --before;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  ::sched_setaffinity(0, sizeof cores, &cores);
}

struct Plan {
  std::string_view way;
  int which;
  std::vector<Size> sizes;

  bool in_memory() const { return way == "memory" || is_foreign(); }
  bool is_foreign() const { return way == "foreign" || way == "slots" || way == "reads"; }
  std::size_t reads_from() const {
    return way == "slots" ? kNoReads : way == "reads" ? 0 : kReadsFrom;
  }
};

int run(Group group, const Exchange& exchange, const Plan& plan,
        const net::Credentials& credentials) {
  pin(group);
  const auto loop = net::create_loop("bench", create_null_logger());
  const auto network = net::create_network(*loop, credentials, {}, create_null_logger());
  if (!network) return 4;
  NativeOptions options;
  options.group = group;
  options.exchange = exchange;
  options.network = network->get();
  options.host = fmt::format("host{}", 2 * to_int(group.rank) / group.size);
  options.transport = plan.in_memory()    ? NativeTransport::kSharedMemory
                      : plan.way == "tcp" ? NativeTransport::kTcp
                                          : NativeTransport::kAuto;
  if (plan.in_memory()) options.host.clear();
  options.reads_from = plan.reads_from();
  auto world = create_native(options);
  if (!world) {
    fmt::print(stderr, "{}\n", world.error().message);
    return 1;
  }
  for (const Size& size : plan.sizes)
    if (!measure(**world, plan.which, size, plan.is_foreign())) return 2;
  const Status parted = (*world)->submit(Barrier{}, {}).wait();
  std::fflush(stdout);
  world->reset();
  loop->stop();
  return parted ? 0 : 3;
}

}  // namespace
}  // namespace muster::comm

int main(int count, char** words) {
  if (count < 5) return 64;
  muster::comm::Plan plan{words[1], find_operation(words[3]), {}};
  if (plan.which == kOperationCount) return 64;
  const int ranks = std::atoi(words[2]);
  for (int i = 4; i < count; ++i) {
    char* rest = nullptr;
    const std::size_t bytes = std::strtoull(words[i], &rest, 10);
    if (*rest != ':') return 64;
    plan.sizes.push_back({bytes, std::atoi(rest + 1)});
  }
  const auto credentials = muster::net::create_credentials(muster::system_clock().wall());
  if (!credentials) return 4;
  muster::comm::RankProcesses processes(ranks, [&](auto group, const auto& exchange) {
    return muster::comm::run(group, exchange, plan, *credentials);
  });
  int worst = 0;
  for (int rank = 0; rank < ranks; ++rank) worst = std::max(worst, processes.wait(rank));
  return worst;
}
