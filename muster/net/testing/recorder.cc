#include "muster/net/testing/recorder.h"

#include <future>

#include "muster/base/random.h"

namespace muster::net::testing {

std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed) {
  std::vector<std::byte> bytes(size);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (auto& byte : bytes) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

Result<std::optional<std::span<std::byte>>> Recorder::on_header(const FrameHeader& header) {
  const std::lock_guard lock(mutex_);
  buffer_.assign(header.length, std::byte{0});
  if (std::exchange(pause_, false)) {
    paused_ = true;
    changed_.notify_all();
    return std::optional<std::span<std::byte>>();
  }
  return std::optional(std::span(buffer_));
}

void Recorder::on_frame(const FrameHeader& header) {
  const std::lock_guard lock(mutex_);
  frames_.push_back({header, std::move(buffer_)});
  changed_.notify_all();
}

void Recorder::on_close(const Error& why) {
  const std::lock_guard lock(mutex_);
  closed_ = why;
  changed_.notify_all();
}

void Recorder::pause_next() {
  const std::lock_guard lock(mutex_);
  pause_ = true;
}

bool Recorder::wait_paused() {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, soon().at(), [&] { return paused_; });
}

void Recorder::resume(Connection& connection) {
  const std::lock_guard lock(mutex_);
  paused_ = false;
  connection.receive_into(buffer_);
}

std::vector<Received> Recorder::wait_frames(std::size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, soon().at(), [&] { return frames_.size() >= count; });
  return frames_;
}

std::vector<Received> Recorder::frames() {
  const std::lock_guard lock(mutex_);
  return frames_;
}

std::optional<Error> Recorder::wait_closed() {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, soon().at(), [&] { return closed_.has_value(); });
  return closed_;
}

Pair::Pair(const NetworkOptions& options, Clock& clock)
    : server_log(std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(64)),
      credentials(create_credentials(system_clock().wall()).value()),
      server_loop(create_loop("server", create_null_logger(), clock)),
      client_loop(create_loop("client", create_null_logger(), clock)),
      server_network(create_network(*server_loop, credentials, options,
                                    std::make_shared<spdlog::logger>("server", server_log))
                         .value()),
      client_network(
          create_network(*client_loop, credentials, options, create_null_logger()).value()) {
  // The listener lives as long as the pair; later connections are kept and stay unused.
  auto first = std::make_shared<std::promise<std::shared_ptr<Connection>>>();
  auto accepted = first->get_future();
  listener = server_network
                 ->listen({"127.0.0.1", 0},
                          [first, kept = std::vector<std::shared_ptr<Connection>>()](
                              std::shared_ptr<Connection> connection) mutable {
                            if (kept.empty()) first->set_value(connection);
                            kept.push_back(std::move(connection));
                          })
                 .value();
  client = connect_and_wait(*client_network, listener->address(), soon()).value();
  server = accepted.get();
  server->start(at_server);
  client->start(at_client);
}

Pair::~Pair() {
  client_loop->stop();
  server_loop->stop();
}

}  // namespace muster::net::testing
