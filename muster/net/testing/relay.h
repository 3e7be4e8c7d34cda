#pragma once
// A way to a listener which is cut as it lets go of whoever has come: after the client has sent all
// that its own part of a TLS handshake takes, and before the listener gets that.

#include <memory>

#include "muster/net/network.h"

namespace muster::net::testing {

class Relay {
 public:
  // Connections to address() go on to `target`, but the first `cuts` break.
  Relay(const Address& target, int cuts);
  ~Relay();
  Address address() const;
  int cuts() const;  // so many broke until now

 private:
  class Ways;
  std::unique_ptr<Ways> ways_;
};

}  // namespace muster::net::testing
