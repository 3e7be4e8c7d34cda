#include "muster/comm/backend/native/host_payloads.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <new>

#include "muster/base/random.h"

namespace muster::comm {
namespace {

constexpr std::uint32_t kPlaces = 32;
constexpr std::size_t kPlaceBytes = std::size_t{4} << 20;
constexpr std::size_t kWorthIt = std::size_t{16} << 10;
constexpr std::size_t kHeadBytes = 4096;
constexpr std::size_t kBytes = kHeadBytes + kPlaces * kPlaceBytes;

enum State : std::uint32_t { kFree, kBeingWritten, kFull, kBeingRead };

struct alignas(64) Place {
  std::atomic<std::uint32_t> state;
};

}  // namespace

// At the beginning of the memory; a new memory is all zeros, its places free.
struct HostPayloads::Head {
  std::uint64_t token;
  std::array<Place, kPlaces> places;
};

Result<std::shared_ptr<HostPayloads>> HostPayloads::create() {
  static_assert(sizeof(Head) <= kHeadBytes);
  MUSTER_ASSIGN(auto memory, SharedMemory::create(kBytes));
  auto* head = new (memory->bytes().data()) Head;
  head->token = system_entropy().next();
  const MemoryAddress address{own_pid(), memory->descriptor(), head->token};
  return std::shared_ptr<HostPayloads>(new HostPayloads(std::move(memory), address));
}

Result<std::shared_ptr<HostPayloads>> HostPayloads::open(const MemoryAddress& address) {
  MUSTER_ASSIGN(auto memory, SharedMemory::open(address.pid, address.descriptor, kBytes));
  std::shared_ptr<HostPayloads> opened(new HostPayloads(std::move(memory), address));
  if (opened->head().token != address.token)
    return fail(
        ErrorCode::kUnavailable,
        fmt::format("process {} is not the one that is meant (another container?)", address.pid));
  return opened;
}

HostPayloads::Head& HostPayloads::head() const noexcept {
  return *std::launder(reinterpret_cast<Head*>(memory_->bytes().data()));
}

std::span<std::byte> HostPayloads::place(std::uint32_t number) const noexcept {
  return memory_->bytes().subspan(kHeadBytes + number * kPlaceBytes, kPlaceBytes);
}

std::optional<PayloadPlace> HostPayloads::put(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() < kWorthIt || bytes.size() > kPlaceBytes) return std::nullopt;
  for (std::uint32_t i = 0; i < kPlaces; ++i) {
    auto& state = head().places[i].state;
    std::uint32_t free = kFree;
    if (!state.compare_exchange_strong(free, kBeingWritten, std::memory_order_acquire)) continue;
    std::memcpy(place(i).data(), bytes.data(), bytes.size());
    state.store(kFull, std::memory_order_release);
    return PayloadPlace{i, 0, bytes.size()};
  }
  return std::nullopt;
}

Result<HostPayloads::Payload> HostPayloads::take(const PayloadPlace& where) {
  std::uint32_t full = kFull;
  if (where.place >= kPlaces || where.bytes > kPlaceBytes ||
      !head().places[where.place].state.compare_exchange_strong(full, kBeingRead,
                                                                std::memory_order_acquire))
    return fail(ErrorCode::kInvalid,
                fmt::format("there is no payload of {} bytes in place {} of its memory",
                            where.bytes, where.place));
  const auto bytes = place(where.place).first(static_cast<std::size_t>(where.bytes));
  const auto release = [self = shared_from_this(), number = where.place](const std::byte*) {
    self->head().places[number].state.store(kFree, std::memory_order_release);
  };
  return Payload{bytes, std::shared_ptr<const std::byte>(bytes.data(), release)};
}

}  // namespace muster::comm
