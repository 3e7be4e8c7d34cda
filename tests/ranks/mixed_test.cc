// Ranks on several hosts, of which some share one: what is large goes through memory inside a host,
// and only there.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "muster/cluster/store.h"
#include "muster/comm/backend/native/native.h"
#include "muster/net/credentials.h"
#include "muster/net/network.h"

namespace muster::comm {
namespace {

constexpr std::size_t kCount = std::size_t{1} << 18;

// Bytes of shared memory that this process has touched.
std::uint64_t shared_bytes() {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    struct stat about {};
    if (target.starts_with("/memfd:muster") && ::stat(entry.path().c_str(), &about) == 0)
      bytes += static_cast<std::uint64_t>(about.st_blocks) * 512;
  }
  return bytes;
}

void sum(Communicator& world, std::int32_t size) {
  std::vector<float> values(kCount, 1.0F);
  const TensorView view{
      DType::kF32, {static_cast<std::int64_t>(kCount)}, std::as_writable_bytes(std::span(values))};
  const Status status = world.submit(AllReduce{view}, {}).wait();
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(values, std::vector<float>(kCount, static_cast<float>(size)));
}

// Ranks as threads, the i-th on hosts[i]; what they have touched of shared memory, all together,
// before they go.
std::uint64_t shared_by(const std::vector<std::string>& hosts, NativeTransport transport) {
  const auto credentials = net::create_credentials(system_clock().wall()).value();
  const auto loop = net::create_loop("mixed", create_null_logger());
  const auto network = net::create_network(*loop, credentials, {}, create_null_logger()).value();
  const auto store = cluster::create_memory_store();
  const auto size = static_cast<std::int32_t>(hosts.size());
  std::uint64_t bytes = 0;
  const auto rank = [&](std::int32_t number) {
    NativeOptions options;
    options.group = {Rank{number}, size, Generation{1}};
    options.transport = transport;
    options.network = network.get();
    options.host = hosts[static_cast<std::size_t>(number)];
    options.exchange = exchange_through(*store, options.group, "meeting");
    const auto world = create_native(options);
    ASSERT_TRUE(world) << world.error().message;
    for (int round = 0; round < 3; ++round) sum(**world, size);
    if (number == 0) bytes = shared_bytes();
    ASSERT_TRUE((*world)->submit(Barrier{}, {}).wait());
  };
  std::vector<std::thread> threads;
  for (std::int32_t number = 0; number < size; ++number) threads.emplace_back(rank, number);
  for (std::thread& thread : threads) thread.join();
  loop->stop();
  return bytes;
}

TEST(Mixed, LargePayloadsGoThroughMemoryInsideAHostAndOnlyThere) {
  EXPECT_GT(shared_by({"a", "a", "b"}, NativeTransport::kAuto), kCount);
  EXPECT_EQ(shared_by({"a", "b", "c"}, NativeTransport::kAuto), 0U);
  EXPECT_EQ(shared_by({"a", "a", "b"}, NativeTransport::kTcp), 0U);
}

// By different tables ranks would play different schedules, and wait for each other.
TEST(Mixed, RanksWithAnotherCostTableAreRefused) {
  const auto store = cluster::create_memory_store();
  const auto rank = [&](std::int32_t number) {
    NativeOptions options;
    options.group = {Rank{number}, 2, Generation{1}};
    options.exchange = exchange_through(*store, options.group, "costs");
    options.costs = default_costs(Wire::kTcp);
    if (number == 1) options.costs->between.latency *= 2;
    const auto world = create_native(options);
    ASSERT_FALSE(world);
    EXPECT_EQ(world.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(world.error().peer, Rank{1 - number});
    EXPECT_NE(world.error().message.find("another table of what links cost"), std::string::npos);
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
}

}  // namespace
}  // namespace muster::comm
