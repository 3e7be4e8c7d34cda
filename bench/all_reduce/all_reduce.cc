// Times all-reduce of f32 among forked processes, verified. One line per size:
// "<bytes> <microseconds of each repetition …>", as rank 0 saw them.
// Usage: muster_bench_all_reduce WAY RANKS REPETITIONS BYTES…
// WAY: memory, all on one host; tcp, TLS between all; mixed, TLS, with memory inside each of two
// hosts that the first and the second half of the ranks say they are on.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "muster/comm/backend/native/native.h"
#include "muster/net/credentials.h"
#include "muster/net/network.h"
#include "tests/ranks/processes/rank_processes.h"

namespace muster::comm {
namespace {

// Each rank adds its number + 1; whole numbers, so that the sum is exact.
bool measure(Communicator& world, std::size_t bytes, int repetitions) {
  auto buffer = world.allocate(bytes);
  if (!buffer) return false;
  const TensorView view{DType::kF32, {static_cast<std::int64_t>(bytes / 4)}, **buffer};
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

struct Plan {
  std::string_view way;
  int repetitions;
  std::vector<std::size_t> sizes;
};

int run(Group group, const Exchange& exchange, const Plan& plan,
        const net::Credentials& credentials) {
  const auto loop = net::create_loop("bench", create_null_logger());
  const auto network = net::create_network(*loop, credentials, {}, create_null_logger());
  if (!network) return 4;
  NativeOptions options;
  options.group = group;
  options.exchange = exchange;
  options.network = network->get();
  options.host = fmt::format("host{}", 2 * to_int(group.rank) / group.size);
  options.transport = plan.way == "memory" ? NativeTransport::kSharedMemory
                      : plan.way == "tcp"  ? NativeTransport::kTcp
                                           : NativeTransport::kAuto;
  if (plan.way == "memory") options.host.clear();
  auto world = create_native(options);
  if (!world) {
    fmt::print(stderr, "{}\n", world.error().message);
    return 1;
  }
  for (const std::size_t bytes : plan.sizes)
    if (!measure(**world, bytes, plan.repetitions)) return 2;
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
  muster::comm::Plan plan{words[1], std::atoi(words[3]), {}};
  const int ranks = std::atoi(words[2]);
  for (int i = 4; i < count; ++i) plan.sizes.push_back(std::strtoull(words[i], nullptr, 10));
  const auto credentials = muster::net::create_credentials(muster::system_clock().wall());
  if (!credentials) return 4;
  muster::comm::RankProcesses processes(ranks, [&](auto group, const auto& exchange) {
    return muster::comm::run(group, exchange, plan, *credentials);
  });
  int worst = 0;
  for (int rank = 0; rank < ranks; ++rank) worst = std::max(worst, processes.wait(rank));
  return worst;
}
