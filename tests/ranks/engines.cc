// The engines under test. A new one enters with two lines.

#include <cstdlib>

#include "muster/comm/backend/loopback/loopback.h"
#include "muster/comm/backend/mpi/mpi_network.h"
#include "muster/comm/backend/nccl/nccl.h"
#include "tests/ranks/fake_nccl.h"
#include "tests/ranks/native_ranks.h"
#include "tests/ranks/ranks.h"

namespace muster::comm {
namespace {

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

Ranks create_nccl_ranks(std::int32_t size, const MusterNccl& nccl) {
  return create_native_ranks(size, {.network = &test_network(),
                                    .over = nccl_over_transport({.nccl = &nccl, .host = "host"})});
}

// Where MUSTER_TEST_NCCL names muster's module and there is a GPU; else nothing.
const MusterNccl* nccl_of_this_machine() {
  const char* const module = std::getenv("MUSTER_TEST_NCCL");
  if (module == nullptr) return nullptr;
  const auto loaded = load_nccl(module);
  return loaded && describe(**loaded) ? *loaded : nullptr;
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
                                          size, {.transport = NativeTransport::kSharedMemory});
                                    }};
INSTANTIATE_TEST_SUITE_P(SharedMemory, Conformance, ::testing::Values(kSharedMemory));

// Where no rank may read another's process.
const EngineUnderTest kSharedMemorySlots{
    "SharedMemorySlots", [](std::int32_t size) {
      return create_native_ranks(
          size, {.transport = NativeTransport::kSharedMemory, .reads_from = kNoReads});
    }};
INSTANTIATE_TEST_SUITE_P(SharedMemorySlots, Conformance, ::testing::Values(kSharedMemorySlots));

const EngineUnderTest kTcp{"Tcp", [](std::int32_t size) {
                             return create_native_ranks(size, {.transport = NativeTransport::kTcp,
                                                               .network = &test_network()});
                           }};
INSTANTIATE_TEST_SUITE_P(Tcp, Conformance, ::testing::Values(kTcp));

// Where MUSTER_TEST_MPI names the module of an MPI, of which a process can have one.
const EngineUnderTest kMpi{"Mpi", [](std::int32_t size) {
                             return create_native_ranks(size, {.transport = NativeTransport::kTcp,
                                                               .network = &mpi_of_this_process()});
                           }};
INSTANTIATE_TEST_SUITE_P(Mpi, Conformance,
                         ::testing::ValuesIn(std::getenv("MUSTER_TEST_MPI") != nullptr
                                                 ? std::vector{kMpi}
                                                 : std::vector<EngineUnderTest>{}));

const EngineUnderTest kMixed{"Mixed", [](std::int32_t size) {
                               return create_native_ranks(size,
                                                          {.network = &test_network(), .hosts = 2});
                             }};
INSTANTIATE_TEST_SUITE_P(Mixed, Conformance, ::testing::Values(kMixed));

// All but NCCL itself, in whose place memory is copied.
const EngineUnderTest kNccl{"Nccl",
                            [](std::int32_t size) { return create_nccl_ranks(size, fake_nccl()); }};
INSTANTIATE_TEST_SUITE_P(Nccl, Conformance, ::testing::Values(kNccl));

// No two ranks can have one GPU: with one alone a rank of its own, and no ranks where a test asks
// for more. tests/ranks/CMakeLists.txt says which tests can do with that.
const EngineUnderTest kNcclDevice{"NcclDevice", [](std::int32_t size) {
                                    const MusterNccl& nccl = *nccl_of_this_machine();
                                    int devices = 0;
                                    nccl.devices(&devices);
                                    return size > devices ? Ranks() : create_nccl_ranks(size, nccl);
                                  }};
INSTANTIATE_TEST_SUITE_P(NcclDevice, Conformance,
                         ::testing::ValuesIn(nccl_of_this_machine() != nullptr
                                                 ? std::vector{kNcclDevice}
                                                 : std::vector<EngineUnderTest>{}));

}  // namespace muster::comm
