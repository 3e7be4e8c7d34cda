#pragma once
// The transport of ranks on different hosts: one authenticated connection a pair of ranks. Every
// frame carries generation, sender and group; what does not belong closes its connection. Between
// ranks of one host large payloads can go through shared memory; all else, and who is there, stays
// with the connection.

#include <functional>
#include <memory>
#include <string>

#include "muster/base/log.h"
#include "muster/comm/engine/transport.h"
#include "muster/net/network.h"

namespace muster::comm {

struct TcpOptions {
  net::Network* network = nullptr;  // outlives the transport
  std::string listen_host;          // where peers reach me
  Logger log;
  std::function<bool()> cancelled;  // see NativeOptions; may be empty
  // Names this machine: what is large goes through memory to ranks that say the same. Empty: not.
  std::string host;
};

// Collective; two exchanges whatever happens. Errors name the rank that cannot be reached.
Result<std::unique_ptr<Transport>> create_tcp_transport(Group group, const TcpOptions& options,
                                                        const Exchange& exchange,
                                                        Deadline deadline);

}  // namespace muster::comm
