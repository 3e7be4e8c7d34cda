#pragma once
// Payloads on their way between two ranks of one host that speak over a connection: the sender
// writes them into memory of its own, which the others map, and a frame only says where they are.
// So what is large is neither encrypted nor copied through the kernel. Thread-safe.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "muster/comm/backend/native/shared_memory.h"

namespace muster::comm {

// Where a payload is, as a frame says it.
struct PayloadPlace {
  std::uint32_t place = 0;
  std::uint32_t reserved = 0;
  std::uint64_t bytes = 0;
};

class HostPayloads : public std::enable_shared_from_this<HostPayloads> {
 public:
  // Address space of 128 MiB; pages exist once a payload has been in them.
  static Result<std::shared_ptr<HostPayloads>> create();                            // one's own
  static Result<std::shared_ptr<HostPayloads>> open(const MemoryAddress& address);  // a peer's

  const MemoryAddress& address() const noexcept { return address_; }

  // Copies them to a place of one's own. Nothing where all places are taken, or where the way over
  // the connection is as short (below 16 KiB) or the only one (above 4 MiB). Never waits.
  std::optional<PayloadPlace> put(std::span<const std::byte> bytes) noexcept;

  struct Payload {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;  // once it is gone the place is free again
  };
  // What a peer has put there. kInvalid: there is nothing; whoever says so may say anything.
  Result<Payload> take(const PayloadPlace& where);

 private:
  struct Head;
  HostPayloads(std::unique_ptr<SharedMemory> memory, MemoryAddress address)
      : memory_(std::move(memory)), address_(address) {}
  Head& head() const noexcept;
  std::span<std::byte> place(std::uint32_t number) const noexcept;

  const std::unique_ptr<SharedMemory> memory_;
  const MemoryAddress address_;
};

}  // namespace muster::comm
