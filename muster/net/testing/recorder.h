#pragma once
// For tests: two networks of one job in one process, joined by a connection whose ends record what
// arrives.

#include <spdlog/sinks/ringbuffer_sink.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/net/network.h"
#include "muster/testing/soon.h"

namespace muster::net::testing {

using muster::testing::soon;

// `size` bytes that differ by place and seed.
std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed);

struct Received {
  FrameHeader header;
  std::vector<std::byte> payload;
};

class Recorder : public Receiver {
 public:
  Result<std::optional<std::span<std::byte>>> on_header(const FrameHeader& header) override;
  void on_frame(const FrameHeader& header) override;
  void on_close(const Error& why) override;

  void pause_next();
  bool wait_paused();
  void resume(Connection& connection);
  std::vector<Received> wait_frames(std::size_t count);  // fewer: they did not come
  std::vector<Received> frames();
  std::optional<Error> wait_closed();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte> buffer_;
  std::vector<Received> frames_;
  std::optional<Error> closed_;
  bool pause_ = false;
  bool paused_ = false;
};

struct Pair {
  explicit Pair(const NetworkOptions& options, Clock& clock = system_clock());
  ~Pair();

  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> server_log;  // what the server's network told
  Credentials credentials;
  std::unique_ptr<SystemLoop> server_loop;
  std::unique_ptr<SystemLoop> client_loop;
  std::unique_ptr<Network> server_network;
  std::unique_ptr<Network> client_network;
  std::unique_ptr<Listener> listener;
  std::shared_ptr<Connection> server;
  std::shared_ptr<Connection> client;
  std::shared_ptr<Recorder> at_server = std::make_shared<Recorder>();
  std::shared_ptr<Recorder> at_client = std::make_shared<Recorder>();
};

}  // namespace muster::net::testing
