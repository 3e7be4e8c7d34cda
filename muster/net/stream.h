#pragma once
// Bytes over a connected, non-blocking socket, with or without TLS. Nothing here waits: a call does
// what it can now and says what it waits for. One thread at a time.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/net/credentials.h"

namespace muster::net {

enum class Io : std::uint8_t {
  kDone,       // `bytes` were moved, at least one
  kWantRead,   // call again when the socket is readable
  kWantWrite,  // call again, with the same bytes or more after them, when it is writable
  kClosed,     // the peer has closed
  kFailed,     // `reason` says why
};

struct IoResult {
  Io state;
  std::size_t bytes = 0;
  std::string reason = {};
  // Of kFailed: not that the connection broke, but that TLS does not take what one of both sent.
  bool refused = false;
};

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Until kDone: by then the other side is done as well, or is a listener that has let this one in.
  virtual IoResult handshake() = 0;
  virtual IoResult read(std::span<std::byte> into) = 0;
  virtual IoResult write(std::span<const std::byte> from) = 0;  // may stay in a buffer until flush
  virtual IoResult flush() = 0;
  virtual void say_goodbye() noexcept = 0;  // tells the peer that nothing follows, if that can be
};

// The socket stays the caller's and outlives the stream.
std::unique_ptr<ByteStream> create_plain_stream(int socket);

enum class Side : std::uint8_t { kClient, kServer };

// TLS 1.3 for one job: both sides must hold exactly the job's certificate, until it expires.
class TlsContext {
 public:
  virtual ~TlsContext() = default;
  virtual Result<std::unique_ptr<ByteStream>> create_stream(int socket, Side side) = 0;
};

// `clock` tells whether the certificate has expired. `write_buffer`: bytes per system call.
Result<std::shared_ptr<TlsContext>> create_tls_context(const Credentials& credentials,
                                                       std::size_t write_buffer,
                                                       const Clock& clock);

}  // namespace muster::net
