// The native engine among real processes: results across address spaces; memory that needs no name.

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "muster/comm/backend/native/native.h"
#include "tests/ranks/processes/rank_processes.h"
#include "tests/ranks/processes/rounds.h"

namespace muster::comm {
namespace {

Result<std::shared_ptr<Communicator>> join(Group group, const Exchange& exchange,
                                           std::size_t reads_from = kReadsFrom) {
  NativeOptions options;
  options.group = group;
  options.exchange = exchange;
  options.heap_bytes = std::size_t{256} << 20;
  options.reads_from = reads_from;
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

// What is moved comes from where it lies in another process, or through slots; from the memory of
// both kinds at once as well.
TEST(Processes, MovesTensorsOfBothKindsOfMemory) {
  constexpr std::size_t kCount = 1 << 18;
  for (const std::int32_t size : {2, 3, 5})
    for (const std::size_t reads_from : {std::size_t{1}, kNoReads}) {
      RankProcesses ranks(size, [&](Group group, const Exchange& exchange) {
        auto world = join(group, exchange, reads_from);
        if (!world) return 10;
        auto buffer = (*world)->allocate(kCount * sizeof(float));
        if (!buffer) return 11;
        std::vector<float> own(kCount);
        const std::span<float> handed_out(reinterpret_cast<float*>((*buffer)->data()), kCount);
        const bool odd = to_int(group.rank) % 2 == 1;
        for (const Operation operation :
             {Operation::kAllGather, Operation::kBroadcast, Operation::kAllToAll})
          for (const std::span<float> memory : {std::span(own), odd ? handed_out : own}) {
            Round round(operation, group, Rank{0}, memory);
            round.fill();
            for (Op& op : round.ops())
              if (!(*world)->submit(std::move(op), {}).wait()) return 12;
            if (!round.is_right()) return 13;
          }
        return 0;
      });
      for (std::int32_t rank = 0; rank < size; ++rank)
        EXPECT_EQ(ranks.wait(rank), 0) << "rank " << rank << " of " << size;
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
