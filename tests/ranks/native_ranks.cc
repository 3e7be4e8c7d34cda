#include "tests/ranks/native_ranks.h"

#include <fmt/format.h>

#include <thread>

#include "muster/cluster/store.h"
#include "muster/net/credentials.h"

namespace muster::comm {

Ranks create_native_ranks(std::int32_t size, const NativeRanks& wanted) {
  const auto store = cluster::create_memory_store();
  Ranks ranks(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (std::int32_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      NativeOptions options;
      options.group = {Rank{rank}, size, Generation{1}};
      options.exchange = exchange_through(*store, options.group, "world");
      options.network = wanted.network;
      options.transport = wanted.transport;
      options.host = fmt::format("host{}", rank % wanted.hosts);
      options.heap_bytes = std::size_t{256} << 20;
      options.over = wanted.over;
      options.reads_from = wanted.reads_from;
      auto made = create_native(options);
      ASSERT_TRUE(made) << made.error().message;
      ranks[static_cast<std::size_t>(rank)] = *made;
    });
  for (std::thread& thread : threads) thread.join();
  return ranks;
}

net::Network& test_network() {
  // First, so that OpenSSL's end at exit comes after that of the loop's thread, which it serves.
  static const auto credentials = net::create_credentials(system_clock().wall());
  static const auto loop = net::create_loop("ranks", create_null_logger());
  static const auto network =
      net::create_network(*loop, *credentials, net::NetworkOptions{}, create_null_logger());
  return **network;
}

}  // namespace muster::comm
