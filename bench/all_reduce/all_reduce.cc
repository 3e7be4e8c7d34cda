// Times all-reduce of f32 among forked processes, verified. One line per size:
// "<bytes> <microseconds of each repetition …>", as rank 0 saw them.
// Usage: muster_bench_all_reduce WAY RANKS BYTES:REPETITIONS…
// WAY: memory, all on one host, in buffers that the engine handed out; foreign, the same in buffers
// of the caller's own; tcp, TLS between all; mixed, TLS, with memory inside each of two hosts that
// the first and the second half of the ranks say they are on.
// Ranks are pinned to a core each where there are as many.

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

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

// Each rank adds its number + 1; whole numbers, so that the sum is exact.
bool measure(Communicator& world, std::span<std::byte> memory, int repetitions) {
  const std::size_t bytes = memory.size();
  const TensorView view{DType::kF32, {static_cast<std::int64_t>(bytes / 4)}, memory};
  const auto values = view.as<float>();
  const auto size = static_cast<float>(world.group().size);
  std::string line = fmt::format("{}", bytes);
  for (int i = 0; i < repetitions + 3; ++i) {  // the first three warm up
    std::ranges::fill(values, static_cast<float>(to_int(world.group().rank) + 1));
    if (!world.submit(Barrier{}, {}).wait()) return false;
    const TimePoint start = system_clock().now();
    const Status status = world.submit(AllReduce{view}, {}).wait();
    const Duration took = system_clock().now() - start;
    if (!status) return false;
    for (const float value : values)
      if (value != size * (size + 1) / 2) return false;
    if (i >= 3) line += fmt::format(" {:.2f}", static_cast<double>(took.count()) / 1000.0);
  }
  if (to_int(world.group().rank) == 0) fmt::print("{}\n", line);
  return true;
}

bool measure(Communicator& world, const Size& size, bool foreign) {
  if (foreign) {
    std::vector<float> own(size.bytes / sizeof(float));
    return measure(world, std::as_writable_bytes(std::span(own)), size.repetitions);
  }
  auto buffer = world.allocate(size.bytes);
  return buffer && measure(world, **buffer, size.repetitions);
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
  std::vector<Size> sizes;

  bool in_memory() const { return way == "memory" || way == "foreign"; }
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
  auto world = create_native(options);
  if (!world) {
    fmt::print(stderr, "{}\n", world.error().message);
    return 1;
  }
  for (const Size& size : plan.sizes)
    if (!measure(**world, size, plan.way == "foreign")) return 2;
  const Status parted = (*world)->submit(Barrier{}, {}).wait();
  std::fflush(stdout);
  world->reset();
  loop->stop();
  return parted ? 0 : 3;
}

}  // namespace
}  // namespace muster::comm

int main(int count, char** words) {
  if (count < 4) return 64;
  muster::comm::Plan plan{words[1], {}};
  const int ranks = std::atoi(words[2]);
  for (int i = 3; i < count; ++i) {
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
