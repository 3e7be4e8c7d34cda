// What the traffic of an all-reduce of f32 alone costs: two pinned processes that spin, each of
// which adds its half of both shared buffers straight into both. No calls, no checks of who calls
// what, no deadline: nothing can do the same in less. The same lines as muster_bench_all_reduce.
// Of 0 bytes: the round trip of one cache line between the two.
// Usage: muster_bench_bound BYTES:REPETITIONS…

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
#include <new>
#include <vector>

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

void all_reduce(Side& side, float* const (&buffers)[2], std::size_t count) {
  side.meet();
  const std::size_t half = count / 32 * 16;  // whole cache lines
  const std::size_t begin = side.rank() == 0 ? 0 : half;
  const std::size_t end = side.rank() == 0 ? half : count;
  add_into_both(buffers[0] + begin, buffers[1] + begin, end - begin);
  side.meet();
}

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

int measure(Side& side, float* const (&buffers)[2], std::size_t count, int repetitions) {
  float* mine = buffers[side.rank()];
  if (side.rank() == 0) std::printf("%zu", count * sizeof(float));
  for (int i = 0; i < repetitions + 3; ++i) {  // the first three warm up
    std::fill(mine, mine + count, static_cast<float>(side.rank() + 1));
    side.meet();
    const auto start = SteadyClock::now();
    all_reduce(side, buffers, count);
    const double took = microseconds_since(start);
    if (!std::all_of(mine, mine + count, [](float value) { return value == 3.0F; })) return 2;
    if (side.rank() == 0 && i >= 3) std::printf(" %.2f", took);
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
  for (int i = 1; i < count; ++i) {
    char* rest = nullptr;
    const std::size_t bytes = std::strtoull(words[i], &rest, 10);
    sizes.push_back({bytes, *rest == ':' ? std::atoi(rest + 1) : 0});
  }
  return sizes;
}

int run(Side side, float* const (&buffers)[2], const std::vector<Size>& sizes) {
  pin(side.rank());
  int worst = 0;
  for (const auto& [bytes, repetitions] : sizes)
    worst =
        std::max(worst, bytes == 0 ? measure_ping_pong(side, repetitions)
                                   : measure(side, buffers, bytes / sizeof(float), repetitions));
  std::fflush(stdout);
  return worst;
}

}  // namespace

int main(int count, char** words) {
  const std::vector<Size> sizes = sizes_of(count, words);
  if (sizes.empty()) return 64;
  std::size_t most = 64;
  for (const Size& size : sizes) most = std::max(most, size.bytes);
  auto* shared = new (map(sizeof(Shared))) Shared{};
  float* const buffers[2] = {static_cast<float*>(map(most)), static_cast<float*>(map(most))};
  const pid_t child = ::fork();
  if (child < 0) return 4;
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody spins for a dead one
    ::_exit(run(Side(*shared, 1), buffers, sizes));
  }
  const int own = run(Side(*shared, 0), buffers, sizes);
  int status = 0;
  ::waitpid(child, &status, 0);
  return own != 0 ? own : WIFEXITED(status) ? WEXITSTATUS(status) : 5;
}
