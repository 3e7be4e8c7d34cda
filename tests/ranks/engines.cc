// The engines under test. A new one enters with two lines.

#include <fmt/format.h>

#include <cstdlib>
#include <thread>

#include "muster/cluster/store.h"
#include "muster/comm/backend/loopback/loopback.h"
#include "muster/comm/backend/mpi/mpi_network.h"
#include "muster/comm/backend/native/native.h"
#include "muster/net/credentials.h"
#include "muster/net/network.h"
#include "tests/ranks/ranks.h"

namespace muster::comm {
namespace {

// Ranks as threads of this process that meet over a store, as processes would.
// `hosts`: that they are dealt to in turn.
Ranks create_native_ranks(std::int32_t size, NativeTransport transport, net::Network* network,
                          std::int32_t hosts = 1) {
  const auto store = cluster::create_memory_store();
  Ranks ranks(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (std::int32_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      NativeOptions options;
      options.group = {Rank{rank}, size, Generation{1}};
      options.exchange = exchange_through(*store, options.group, "world");
      options.network = network;
      options.transport = transport;
      options.host = fmt::format("host{}", rank % hosts);
      options.heap_bytes = std::size_t{256} << 20;
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

// One process that MPI's launcher has not started is a world of one rank, to which every connection
// leads: the messages go through MPI all the same. Its end is told to MPI, or it leaves files
// behind.
struct MpiOfThisProcess {
  std::unique_ptr<MpiNetwork> network;
  MpiOfThisProcess() {
    auto made =
        create_mpi_network({.module = std::getenv("MUSTER_TEST_MPI"), .log = create_null_logger()});
    if (made)
      network = std::move(*made);
    else
      ADD_FAILURE() << made.error().message;
  }
  ~MpiOfThisProcess() {
    if (!network) return;
    EXPECT_TRUE(network->finish(Deadline::after(system_clock(), std::chrono::seconds(20))));
  }
};

net::Network& mpi_of_this_process() {
  static const MpiOfThisProcess mpi;
  return *mpi.network;
}

}  // namespace

const EngineUnderTest kLoopback{"Loopback",
                                [](std::int32_t size) { return create_loopback(size); }};
INSTANTIATE_TEST_SUITE_P(Loopback, Conformance, ::testing::Values(kLoopback));

const EngineUnderTest kLoopbackHosts{"LoopbackHosts", [](std::int32_t size) {
                                       std::vector<std::int32_t> hosts;
                                       for (std::int32_t rank = 0; rank < size; ++rank)
                                         hosts.push_back(rank % 2);
                                       return create_loopback(Topology(hosts));
                                     }};
INSTANTIATE_TEST_SUITE_P(LoopbackHosts, Conformance, ::testing::Values(kLoopbackHosts));

const EngineUnderTest kSharedMemory{"SharedMemory", [](std::int32_t size) {
                                      return create_native_ranks(
                                          size, NativeTransport::kSharedMemory, nullptr);
                                    }};
INSTANTIATE_TEST_SUITE_P(SharedMemory, Conformance, ::testing::Values(kSharedMemory));

const EngineUnderTest kTcp{"Tcp", [](std::int32_t size) {
                             return create_native_ranks(size, NativeTransport::kTcp,
                                                        &test_network());
                           }};
INSTANTIATE_TEST_SUITE_P(Tcp, Conformance, ::testing::Values(kTcp));

// Where MUSTER_TEST_MPI names the module of an MPI, of which a process can have one.
const EngineUnderTest kMpi{"Mpi", [](std::int32_t size) {
                             return create_native_ranks(size, NativeTransport::kTcp,
                                                        &mpi_of_this_process());
                           }};
INSTANTIATE_TEST_SUITE_P(Mpi, Conformance,
                         ::testing::ValuesIn(std::getenv("MUSTER_TEST_MPI") != nullptr
                                                 ? std::vector{kMpi}
                                                 : std::vector<EngineUnderTest>{}));

const EngineUnderTest kMixed{"Mixed", [](std::int32_t size) {
                               return create_native_ranks(size, NativeTransport::kAuto,
                                                          &test_network(), 2);
                             }};
INSTANTIATE_TEST_SUITE_P(Mixed, Conformance, ::testing::Values(kMixed));

}  // namespace muster::comm
