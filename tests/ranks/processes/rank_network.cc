#include "tests/ranks/processes/rank_network.h"

#include <utility>

namespace muster::comm {

RankNetwork::RankNetwork(const net::Credentials& credentials, std::string listen_host)
    : listen_host_(std::move(listen_host)),
      loop_(net::create_loop("rank", create_null_logger())),
      network_(net::create_network(*loop_, credentials, {}, create_null_logger()).value()) {}

Result<std::shared_ptr<Communicator>> RankNetwork::join(Group group, const Exchange& exchange,
                                                        NativeTransport transport) {
  NativeOptions options;
  options.group = group;
  options.exchange = exchange;
  options.transport = transport;
  options.network = network_.get();
  options.listen_host = listen_host_;
  options.heap_bytes = std::size_t{256} << 20;
  options.book = &book_;
  return create_native(options);
}

}  // namespace muster::comm
