#pragma once
// Where TCP connections arrive, with no network behind it: what becomes of them is the test's
// doing.

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include "muster/net/network.h"

namespace muster::net::testing {

class BareDoor {
 public:
  BareDoor() : acceptor_(context_, {asio::ip::make_address("127.0.0.1"), 0}) {}
  Address address() const { return {"127.0.0.1", acceptor_.local_endpoint().port()}; }
  asio::ip::tcp::socket accept() { return acceptor_.accept(); }

 private:
  asio::io_context context_;
  asio::ip::tcp::acceptor acceptor_;
};

}  // namespace muster::net::testing
