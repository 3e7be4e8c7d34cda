#include "muster/net/testing/relay.h"

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <atomic>
#include <thread>
#include <utility>

namespace muster::net::testing {

class Relay::Ways {
 public:
  Ways(const Address& target, int cuts)
      : target_(asio::ip::make_address(target.host), target.port),
        acceptor_(context_, {asio::ip::make_address("127.0.0.1"), 0}),
        cuts_left_(cuts) {
    accept();
    thread_ = std::thread([this] { context_.run(); });
  }
  ~Ways() {
    context_.stop();
    thread_.join();
  }

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  int cuts() const { return cuts_; }

 private:
  using Socket = asio::ip::tcp::socket;
  struct Way {
    Socket client;
    Socket server;
    bool breaks;
    bool server_has_spoken = false;
    std::array<char, 16 * 1024> from_client{};
    std::array<char, 16 * 1024> from_server{};

    void close() {
      asio::error_code ignored;
      client.close(ignored);
      server.close(ignored);
    }
  };

  void accept() {
    acceptor_.async_accept([this](const asio::error_code& error, Socket client) {
      if (error) return;
      const auto way =
          std::make_shared<Way>(Way{std::move(client), Socket(context_), cuts_left_ > 0});
      if (way->breaks) --cuts_left_;
      asio::error_code unreachable;
      way->server.connect(target_, unreachable);
      if (unreachable) return way->close();
      pass_on_from_client(way);
      pass_on_from_server(way);
      accept();
    });
  }

  // What a client says after a server has spoken is the last of its handshake.
  void pass_on_from_client(const std::shared_ptr<Way>& way) {
    way->client.async_read_some(
        asio::buffer(way->from_client),
        [this, way](const asio::error_code& error, std::size_t bytes) {
          const bool breaks = !error && way->breaks && way->server_has_spoken;
          if (breaks) ++cuts_;
          if (error || breaks) return way->close();
          asio::error_code gone;
          asio::write(way->server, asio::buffer(way->from_client.data(), bytes), gone);
          gone ? way->close() : pass_on_from_client(way);
        });
  }

  void pass_on_from_server(const std::shared_ptr<Way>& way) {
    way->server.async_read_some(asio::buffer(way->from_server),
                                [this, way](const asio::error_code& error, std::size_t bytes) {
                                  if (error) return way->close();
                                  way->server_has_spoken = true;
                                  asio::error_code gone;
                                  asio::write(way->client,
                                              asio::buffer(way->from_server.data(), bytes), gone);
                                  gone ? way->close() : pass_on_from_server(way);
                                });
  }

  asio::io_context context_;
  const asio::ip::tcp::endpoint target_;
  asio::ip::tcp::acceptor acceptor_;
  int cuts_left_;  // the thread's
  std::atomic<int> cuts_{0};
  std::thread thread_;
};

Relay::Relay(const Address& target, int cuts) : ways_(std::make_unique<Ways>(target, cuts)) {}
Relay::~Relay() = default;
Address Relay::address() const { return {"127.0.0.1", ways_->port()}; }
int Relay::cuts() const { return ways_->cuts(); }

}  // namespace muster::net::testing
