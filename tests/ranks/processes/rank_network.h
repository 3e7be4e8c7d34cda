#pragma once
// What a forked rank meets the others through, in one generation after another.

#include <memory>
#include <string>

#include "muster/comm/backend/native/native.h"
#include "muster/net/credentials.h"
#include "muster/net/network.h"

namespace muster::comm {

class RankNetwork {
 public:
  // Begins a thread: in the child only. `listen_host`: where the others reach it.
  explicit RankNetwork(const net::Credentials& credentials, std::string listen_host = "127.0.0.1");
  ~RankNetwork() { loop_->stop(); }
  RankNetwork(const RankNetwork&) = delete;
  RankNetwork& operator=(const RankNetwork&) = delete;

  // As create_native(). The communicator goes before this does.
  Result<std::shared_ptr<Communicator>> join(Group group, const Exchange& exchange,
                                             NativeTransport transport);

 private:
  const std::string listen_host_;
  const std::unique_ptr<net::SystemLoop> loop_;
  const std::unique_ptr<net::Network> network_;
  CostBook book_;
};

}  // namespace muster::comm
