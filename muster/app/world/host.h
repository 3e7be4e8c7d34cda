#pragma once
// The coordinator of a world that no launcher of muster's has started: the first rank keeps it. It
// tells all others of a failure and of whose it is, and stays until all have come to their end.

#include <memory>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/log.h"
#include "muster/base/result.h"
#include "muster/net/credentials.h"
#include "muster/net/network.h"

namespace muster::app {

struct HostOptions {
  net::Address listen;  // port 0: any
  std::int32_t ranks = 1;
  net::Address meeting;  // where they have learned of this host
  Duration join_timeout = std::chrono::seconds(60);
};

class Host {  // thread-safe
 public:
  // Says no word to anybody: who is left takes that for the first rank's death.
  virtual ~Host() = default;
  virtual const net::Address& address() const noexcept = 0;
  // Waits until all other ranks have left, or been lost; says whom it waits for where it takes
  // long.
  virtual void wait_for_the_others(Deadline deadline) noexcept = 0;
};

Result<std::unique_ptr<Host>> create_host(const net::Credentials& credentials, HostOptions options,
                                          Logger log);

}  // namespace muster::app
