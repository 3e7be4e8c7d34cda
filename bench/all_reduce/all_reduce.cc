// Times all-reduce of f32 among forked processes over shared memory, verified. One line per size:
// "<bytes> <microseconds of each repetition …>", as rank 0 saw them.
// Usage: muster_bench_all_reduce RANKS REPETITIONS BYTES…

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "muster/comm/backend/native/native.h"
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

int run(Group group, const Exchange& exchange, int repetitions,
        const std::vector<std::size_t>& sizes) {
  NativeOptions options;
  options.group = group;
  options.exchange = exchange;
  options.transport = NativeTransport::kSharedMemory;
  auto world = create_native(options);
  if (!world) {
    fmt::print(stderr, "{}\n", world.error().message);
    return 1;
  }
  for (const std::size_t bytes : sizes)
    if (!measure(**world, bytes, repetitions)) return 2;
  const Status parted = (*world)->submit(Barrier{}, {}).wait();
  std::fflush(stdout);
  return parted ? 0 : 3;
}

}  // namespace
}  // namespace muster::comm

int main(int count, char** words) {
  if (count < 4) return 64;
  const int ranks = std::atoi(words[1]);
  const int repetitions = std::atoi(words[2]);
  std::vector<std::size_t> sizes;
  for (int i = 3; i < count; ++i) sizes.push_back(std::strtoull(words[i], nullptr, 10));
  muster::comm::RankProcesses processes(ranks, [&](auto group, const auto& exchange) {
    return muster::comm::run(group, exchange, repetitions, sizes);
  });
  int worst = 0;
  for (int rank = 0; rank < ranks; ++rank) worst = std::max(worst, processes.wait(rank));
  return worst;
}
