// The native engine among real processes: results across address spaces; who dies or freezes is
// named before the deadline; nothing stays behind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "muster/comm/backend/native/native.h"
#include "tests/ranks/processes/rank_processes.h"

namespace muster::comm {
namespace {

Result<std::shared_ptr<Communicator>> join(Group group, const Exchange& exchange) {
  NativeOptions options;
  options.group = group;
  options.exchange = exchange;
  options.heap_bytes = std::size_t{256} << 20;
  return create_native(options);
}

// Sums 1 << 16 floats over all ranks; the label says which step it is.
Status sum(Communicator& world, std::span<float> values, int step, Duration timeout) {
  OpOptions options;
  options.timeout = timeout;
  options.label = "step " + std::to_string(step);
  return world.submit(AllReduce{view_of(values)}, options).wait();
}

TEST(Processes, AllReduceInSharedAndPrivateMemory) {
  for (const std::int32_t size : {2, 3, 5}) {
    RankProcesses ranks(size, [](Group group, const Exchange& exchange) {
      auto world = join(group, exchange);
      if (!world) return 10;
      auto buffer = (*world)->allocate(65537 * sizeof(float));
      std::vector<float> own(65537);
      const std::span<float> spans[] = {own,
                                        {reinterpret_cast<float*>((*buffer)->data()), own.size()}};
      for (const std::span<float> values : spans) {
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = static_cast<float>(i % 1000) + static_cast<float>(to_int(group.rank));
        if (!sum(**world, values, 0, std::chrono::seconds(30))) return 11;
        const auto ranks_sum = static_cast<float>(group.size * (group.size - 1)) / 2;
        for (std::size_t i = 0; i < values.size(); ++i)
          if (values[i] !=
              static_cast<float>(group.size) * static_cast<float>(i % 1000) + ranks_sum)
            return 12;
      }
      return 0;
    });
    for (std::int32_t rank = 0; rank < size; ++rank)
      EXPECT_EQ(ranks.wait(rank), 0) << "rank " << rank;
  }
}

constexpr std::size_t kElements = 1 << 18;  // too many for one chunk
constexpr std::size_t kFewElements = 64;    // few enough for the way of small tensors

// Each collective, `all` being as long for every rank as it needs, in the operation's larger
// tensor.
Op operation(std::size_t kind, std::span<float> all, const Group& group) {
  const auto size = static_cast<std::size_t>(group.size);
  const auto one = all.subspan(all.size() / 2, all.size() / 2 / size);
  const auto rest = all.first(one.size() * size);
  switch (kind) {
    case 0:
      return AllReduce{view_of(all)};
    case 1:
      return ReduceScatter{view_of(one), view_of(rest)};
    case 2:
      return AllGather{view_of(rest), view_of(one)};
    case 3:
      return Broadcast{view_of(all), Rank{0}};
    case 4:
      return AllToAll{view_of(all.subspan(all.size() / 2, rest.size())), view_of(rest)};
    default:
      return Barrier{};
  }
}
constexpr std::size_t kOperations = 6;

enum class Memory : std::uint8_t { kFew, kForeign, kHandedOut };

struct Case {
  std::int32_t size;  // 2: a core each on most machines; 5: shared ones
  std::size_t kind;
  Memory memory;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const std::int32_t size : {2, 5})
    for (std::size_t kind = 0; kind < kOperations; ++kind)
      for (const Memory memory : {Memory::kFew, Memory::kForeign, Memory::kHandedOut})
        if (kind + 1 < kOperations || memory == Memory::kFew) cases.push_back({size, kind, memory});
  return cases;
}

// Ranks that have come through their first operation, seen by all processes that are forked later.
std::atomic<std::int32_t>& create_counter() {
  void* memory = ::mmap(nullptr, sizeof(std::atomic<std::int32_t>), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return *new (memory) std::atomic<std::int32_t>(0);
}

// Until something fails; exit status 0: with the right code, naming the last rank.
RankBody operate_until_failure(Case which, ErrorCode code, Duration timeout,
                               std::atomic<std::int32_t>& started) {
  return [=, &started](Group group, const Exchange& exchange) {
    auto world = join(group, exchange);
    if (!world) return 10;
    const std::size_t count = which.memory == Memory::kFew ? kFewElements : kElements;
    auto buffer = (*world)->allocate(count * sizeof(float));
    if (!buffer) return 11;
    std::vector<float> own(count, 1.0F);
    const std::span<float> values =
        which.memory == Memory::kHandedOut
            ? std::span(reinterpret_cast<float*>((*buffer)->data()), count)
            : std::span(own);
    OpOptions options;
    options.timeout = timeout;
    for (bool first = true;; first = false) {
      const Status status = (*world)->submit(operation(which.kind, values, group), options).wait();
      if (status && first) ++started;
      if (status) continue;
      const bool right = status.error().peer == Rank{group.size - 1} && status.error().code == code;
      if (!right)
        std::fprintf(stderr, "rank %d: %s\n", to_int(group.rank), status.error().message.c_str());
      return right ? 0 : 20;
    }
  };
}

void stop_last_rank(const Case& which, int signal, ErrorCode code, Duration timeout) {
  std::atomic<std::int32_t>& started = create_counter();
  RankProcesses ranks(which.size, operate_until_failure(which, code, timeout, started));
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (started < which.size && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_EQ(started, which.size);
  ranks.signal(which.size - 1, signal);
  for (std::int32_t rank = 0; rank < which.size - 1; ++rank)
    EXPECT_EQ(ranks.wait(rank), 0) << "rank " << rank << " of " << which.size << ", operation "
                                   << which.kind << ", memory " << static_cast<int>(which.memory);
  ::munmap(&started, sizeof started);
}

TEST(Processes, AKilledRankIsNamedByAllSurvivorsOfEachOperation) {
  const auto start = std::chrono::steady_clock::now();
  for (const Case& which : all_cases())
    stop_last_rank(which, SIGKILL, ErrorCode::kPeerLost, std::chrono::minutes(5));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(5));  // no deadline
}

TEST(Processes, AFrozenRankIsNamedAtTheDeadlineOfEachOperation) {
  for (const Case& which : all_cases()) {
    const bool chosen =
        which.kind == 0 || (which.kind + static_cast<std::size_t>(which.memory)) % 3 == 1;
    if (chosen || which.kind + 1 == kOperations)
      stop_last_rank(which, SIGSTOP, ErrorCode::kTimeout, std::chrono::seconds(1));
  }
}

// So that nothing can stay behind of ranks that are killed.
TEST(Processes, SharedMemoryHasNoName) {
  RankProcesses ranks(2, [](Group group, const Exchange& exchange) {
    auto world = join(group, exchange);
    if (!world) return 10;
    std::vector<float> values(1 << 16, 1.0F);
    if (!sum(**world, values, 0, std::chrono::seconds(30))) return 13;  // all have joined
    bool shares = false;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find("/dev/shm/") != std::string::npos) return 11;
      shares |= line.find("/memfd:muster") != std::string::npos;
    }
    return shares ? 0 : 12;
  });
  for (const std::int32_t rank : {0, 1}) EXPECT_EQ(ranks.wait(rank), 0) << "rank " << rank;
}

}  // namespace
}  // namespace muster::comm
