#pragma once
// Engine `native`: shared memory between processes of one host, TCP (with TLS where the network has
// it) between hosts. All-reduce in memory from allocate() copies nothing in or out. Nothing is left
// behind when a process dies. Communicators are thread-safe; each runs its collectives in order, in
// the thread that waits for one, or in one of its own (engine/engine_communicator.h).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/log.h"
#include "muster/comm/backend/native/peer_memory.h"
#include "muster/comm/communicator.h"
#include "muster/comm/cost.h"
#include "muster/comm/engine/engine.h"
#include "muster/comm/engine/measure_costs.h"
#include "muster/comm/engine/transport.h"

namespace muster::cluster {
class KvStore;
}
namespace muster::net {
class Network;
}

namespace muster::comm {

enum class NativeTransport : std::uint8_t {
  // Shared memory when all ranks are on one host; else TCP, and to ranks of the own host large
  // payloads through memory. Logged, never changed later.
  kAuto,
  kSharedMemory,
  // The network alone: TCP, or another that stands in for it (backend/mpi).
  kTcp,
};

struct NativeOptions {
  Group group;
  Exchange exchange;                // how ranks first meet; exchange_through() for a store
  net::Network* network = nullptr;  // needed for TCP; outlives the communicator
  NativeTransport transport = NativeTransport::kAuto;
  std::string host = {};  // names this machine; empty: by the kernel's boot id
  Duration connect_timeout = std::chrono::seconds(30);
  std::optional<Duration> arrival_timeout = {};  // of the others, before that; none: the same
  std::function<bool()> cancelled;  // asked while it waits for peers: a newer generation has begun
  std::size_t heap_bytes = kHeapBytes;  // for allocate()
  // Shared memory: from how many bytes that one rank takes of another tensors that are not from
  // allocate() are read out of its process, where the system lets all ranks do so, instead of
  // copied through slots. The most that a rank says counts; kNoReads: never.
  std::size_t reads_from = kReadsFrom;
  std::string listen_host = "127.0.0.1";  // TCP: the address peers can reach me at
  // TCP: by which schedules are chosen; all alike. None: measured when the group meets, but for
  // what `book` knows from earlier ones; it is filled, and outlives the call.
  std::optional<CostTable> costs = {};
  CostBook* book = nullptr;
  // Instead of the schedules, over TCP also inside a host (backend/nccl). Empty: schedules.
  EngineOver over = {};
  Logger log = create_null_logger();
  Clock* clock = &system_clock();
};

// Collective. Errors name the rank that did not come or cannot be reached.
Result<std::shared_ptr<Communicator>> create_native(const NativeOptions& options);

// Ranks meet under "<prefix>/<rank>" in `store`, which outlives the Exchange.
Exchange exchange_through(cluster::KvStore& store, Group group, std::string prefix);

}  // namespace muster::comm
