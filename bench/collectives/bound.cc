// What the traffic of a collective of f32 alone costs: two pinned processes that spin, each of
// which does its half straight in the shared buffers of both. No calls, no checks of who calls
// what, no deadline: nothing can do the same in less. The same lines as muster_bench_collectives.
// Of 0 bytes: the round trip of one cache line between the two.
// Usage: muster_bench_bound OPERATION BYTES:REPETITIONS…

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>
#include <optional>
#include <vector>

#include "bench/collectives/operations.h"

namespace {

using SteadyClock = std::chrono::steady_clock;

struct Shared {
  struct alignas(64) Flag {
    std::atomic<std::uint32_t> phase;
  };
  Flag flags[2];
};

// This process's side of the two.
class Side {
 public:
  Side(Shared& shared, int rank) : shared_(shared), rank_(rank) {}

  int rank() const { return rank_; }
  void meet() {
    ++phase_;
    shared_.flags[rank_].phase.store(phase_, std::memory_order_release);
    while (shared_.flags[1 - rank_].phase.load(std::memory_order_acquire) < phase_) continue;
  }
  void ping_pong() {
    if (rank_ == 1) await_other();
    ++phase_;
    shared_.flags[rank_].phase.store(phase_, std::memory_order_release);
    if (rank_ == 0) await_other();
  }

 private:
  void await_other() {
    const std::uint32_t awaited = phase_ + (rank_ == 1 ? 1 : 0);
    while (shared_.flags[1 - rank_].phase.load(std::memory_order_acquire) < awaited) continue;
  }

  Shared& shared_;
  const int rank_;
  std::uint32_t phase_ = 0;
};

#if defined(__x86_64__) && !defined(__clang__)
[[gnu::target_clones("avx512f", "avx2", "default"), gnu::optimize("O3")]]
#endif
void add_into_both(float* a, float* b, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = a[i] + b[i];
    a[i] = sum;
    b[i] = sum;
  }
}

#if defined(__x86_64__) && !defined(__clang__)
[[gnu::target_clones("avx512f", "avx2", "default"), gnu::optimize("O3")]]
#endif
void add(const float* a, const float* b, float* into, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) into[i] = a[i] + b[i];
}

// By rank. Of an operation in place, input and output are one.
struct Buffers {
  float* inputs[2];
  float* outputs[2];
};

// A rank's half of what both do, in whole cache lines.
struct Half {
  std::size_t begin;
  std::size_t count;
};

Half half_of(int rank, std::size_t count) {
  const std::size_t half = count / 32 * 16;
  return rank == 0 ? Half{0, half} : Half{half, count - half};
}

void copy(const float* from, float* to, std::size_t count) {
  std::memcpy(to, from, count * sizeof(float));
}

void all_reduce(int rank, const Buffers& b, std::size_t block) {
  const Half half = half_of(rank, 2 * block);
  add_into_both(b.outputs[0] + half.begin, b.outputs[1] + half.begin, half.count);
}

void reduce_scatter(int rank, const Buffers& b, std::size_t block) {
  const std::size_t begin = rank == 0 ? 0 : block;
  add(b.inputs[0] + begin, b.inputs[1] + begin, b.outputs[rank], block);
}

void all_gather(int rank, const Buffers& b, std::size_t block) {
  copy(b.inputs[0], b.outputs[rank], block);
  copy(b.inputs[1], b.outputs[rank] + block, block);
}

void all_to_all(int rank, const Buffers& b, std::size_t block) {
  const std::size_t begin = rank == 0 ? 0 : block;
  copy(b.inputs[0] + begin, b.outputs[rank], block);
  copy(b.inputs[1] + begin, b.outputs[rank] + block, block);
}

void broadcast(int rank, const Buffers& b, std::size_t block) {
  const Half half = half_of(rank, 2 * block);
  copy(b.outputs[0] + half.begin, b.outputs[1] + half.begin, half.count);
}

using Traffic = void (*)(int rank, const Buffers&, std::size_t block);
constexpr Traffic kTraffic[] = {all_reduce, reduce_scatter, all_gather, all_to_all, broadcast};
static_assert(std::size(kTraffic) == kOperationCount);

void* map(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::exit(4);
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

void pin(int rank) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(rank, &cores);
  if (::sched_setaffinity(0, sizeof cores, &cores) != 0) std::exit(4);
}

double microseconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double, std::micro>(SteadyClock::now() - start).count();
}

int measure_ping_pong(Side& side, int repetitions) {
  if (side.rank() == 0) std::printf("0");
  for (int i = 0; i < repetitions; ++i) {
    constexpr int kTrips = 100;
    side.meet();
    const auto start = SteadyClock::now();
    for (int trip = 0; trip < kTrips; ++trip) side.ping_pong();
    if (side.rank() == 0) std::printf(" %.3f", microseconds_since(start) / kTrips);
  }
  if (side.rank() == 0) std::printf("\n");
  return 0;
}

// Microseconds; none: the result is wrong.
std::optional<double> measure_once(Side& side, int which, const Buffers& buffers,
                                   std::size_t block) {
  const Operation& operation = kOperations[which];
  float* const output = buffers.outputs[side.rank()];
  fill_input(&operation, buffers.inputs[side.rank()], block, side.rank(), 2);
  clear_output(&operation, output, block, 2);
  side.meet();
  const auto start = SteadyClock::now();
  side.meet();
  kTraffic[which](side.rank(), buffers, block);
  side.meet();
  const double took = microseconds_since(start);
  if (is_output_right(&operation, output, block, side.rank(), 2) == 0) return std::nullopt;
  return took;
}

int measure(Side& side, int which, const Buffers& buffers, std::size_t bytes, int repetitions) {
  if (side.rank() == 0) std::printf("%zu", bytes);
  for (int i = 0; i < repetitions + 3; ++i) {  // the first three warm up
    const auto took = measure_once(side, which, buffers, block_of(bytes, 2));
    if (!took) return 2;
    if (side.rank() == 0 && i >= 3) std::printf(" %.2f", *took);
  }
  if (side.rank() == 0) std::printf("\n");
  return 0;
}

struct Size {
  std::size_t bytes;
  int repetitions;
};

std::vector<Size> sizes_of(int count, char** words) {
  std::vector<Size> sizes;
  for (int i = 2; i < count; ++i) {
    char* rest = nullptr;
    const std::size_t bytes = std::strtoull(words[i], &rest, 10);
    sizes.push_back({bytes, *rest == ':' ? std::atoi(rest + 1) : 0});
  }
  return sizes;
}

int run(Side side, int which, const Buffers& buffers, const std::vector<Size>& sizes) {
  pin(side.rank());
  int worst = 0;
  for (const auto& [bytes, repetitions] : sizes)
    worst = std::max(worst, bytes == 0 ? measure_ping_pong(side, repetitions)
                                       : measure(side, which, buffers, bytes, repetitions));
  std::fflush(stdout);
  return worst;
}

Buffers map_buffers(const Operation& operation, std::size_t most) {
  Buffers buffers{};
  for (int rank = 0; rank < 2; ++rank) {
    buffers.outputs[rank] = static_cast<float*>(map(most));
    buffers.inputs[rank] =
        operation.in_place != 0 ? buffers.outputs[rank] : static_cast<float*>(map(most));
  }
  return buffers;
}

}  // namespace

int main(int count, char** words) {
  const int which = count > 1 ? find_operation(words[1]) : kOperationCount;
  const std::vector<Size> sizes = sizes_of(count, words);
  if (which == kOperationCount || sizes.empty()) return 64;
  std::size_t most = 64;
  for (const Size& size : sizes) most = std::max(most, size.bytes);
  auto* shared = new (map(sizeof(Shared))) Shared{};
  const Buffers buffers = map_buffers(kOperations[which], most);
  const pid_t child = ::fork();
  if (child < 0) return 4;
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody spins for a dead one
    ::_exit(run(Side(*shared, 1), which, buffers, sizes));
  }
  const int own = run(Side(*shared, 0), which, buffers, sizes);
  int status = 0;
  ::waitpid(child, &status, 0);
  return own != 0 ? own : WIFEXITED(status) ? WEXITSTATUS(status) : 5;
}
