#pragma once
// The frame: 56 bytes of header, then `length` bytes of payload. Everything that muster's processes
// say to each other travels in frames. Pure and thread-safe; any bytes may be fed to decode_header.
//
//   offset  0 magic u16 "mF"   2 version u16    4 kind u16      6 reserved u16 (0)
//           8 job u64         16 generation u64
//          24 sender i32      28 context u32   32 tag u32      36 reserved u32 (0)
//          40 length u64      48 sequence u32  52 checksum u32 of bytes 0 … 51
// All little-endian. The checksum finds a reader that lost its place; TLS keeps out forgers.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "muster/base/ids.h"
#include "muster/base/result.h"

namespace muster::net {

inline constexpr std::size_t kHeaderBytes = 56;
inline constexpr std::uint16_t kFrameVersion = 1;

// Kinds belong to rooms: below 16 to cluster, 16 … 31 to comm, 32 and up are free.
using FrameKind = std::uint16_t;
inline constexpr FrameKind kControlFrame = 1;
inline constexpr FrameKind kFirstCommFrame = 16;

struct FrameHeader {
  FrameKind kind = 0;
  std::uint64_t job = 0;  // filled in by Connection::send
  Generation generation{0};
  Rank sender = kNoRank;
  std::uint32_t context = 0;   // which conversation of this kind: a group, a stream
  std::uint32_t tag = 0;       // the kind's own
  std::uint32_t sequence = 0;  // the kind's own
  std::uint64_t length = 0;    // bytes of payload; filled in by Connection::send
  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

std::array<std::byte, kHeaderBytes> encode_header(const FrameHeader& header) noexcept;

// kCorrupt: no frame of ours (magic, version, reserved, checksum, sender below -1).
Result<FrameHeader> decode_header(std::span<const std::byte, kHeaderBytes> bytes);

// What a connection accepts.
struct FramePolicy {
  std::uint64_t job = 0;
  Generation oldest{0};                  // frames of earlier generations are refused
  std::uint64_t max_length = 64u << 20;  // bytes of payload
};

// kInvalid: another job or too long, the connection must be closed. kStale: an old generation, the
// payload is skipped and the connection stays.
Status check_frame(const FrameHeader& header, const FramePolicy& policy);

// How many frames and strangers were let in or refused, and why. Thread-safe.
struct Counters {
  std::atomic<std::uint64_t> frames{0};
  std::atomic<std::uint64_t> malformed{0};
  std::atomic<std::uint64_t> wrong_job{0};
  std::atomic<std::uint64_t> oversized{0};
  std::atomic<std::uint64_t> stale{0};
  std::atomic<std::uint64_t> handshakes_refused{0};
};

}  // namespace muster::net
