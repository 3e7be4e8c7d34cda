#pragma once
// A small key-value store that the whole job sees: how workers tell each other where they can be
// reached before they can talk. Not for tensors: values are bounded by the control frame (64 MiB).

#include <cstdint>
#include <memory>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/net/message.h"

namespace muster::cluster {

using net::Bytes;

// Thread-safe. Every call ends by its deadline (kTimeout) or with kPeerLost when the store is gone.
class KvStore {
 public:
  virtual ~KvStore() = default;
  virtual Status set(const std::string& key, Bytes value, Deadline deadline) = 0;
  // Waits until the key exists; kTimeout names the key.
  virtual Result<Bytes> get(const std::string& key, Deadline deadline) = 0;
  // Adds to a counter, which begins at 0; the new value.
  virtual Result<std::int64_t> add(const std::string& key, std::int64_t delta,
                                   Deadline deadline) = 0;
  // Sets `desired` where the value is `expected` (empty: where there is none). Returns the value
  // afterwards: equal to `desired` means done.
  virtual Result<Bytes> compare_exchange(const std::string& key, Bytes expected, Bytes desired,
                                         Deadline deadline) = 0;
};

// In this process's memory: for threads as ranks, and for tests. `clock` outlives the store.
std::unique_ptr<KvStore> create_memory_store(Clock& clock = system_clock());

Bytes to_bytes(std::string_view text);
std::string to_string(const Bytes& bytes);

}  // namespace muster::cluster
