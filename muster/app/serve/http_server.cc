#include "muster/app/serve/http_server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "muster/base/clock.h"
#include "muster/base/exception_error.h"
#include "muster/base/pause.h"

namespace muster::app {
namespace {

constexpr std::string_view kBearer = "Bearer ";
constexpr std::string_view kOwnNames[] = {"127.0.0.1", "localhost", "[::1]"};
constexpr std::size_t kThreads = 2;
constexpr std::size_t kLongestRequest = 4096;
// A stranger that connects and says nothing holds a thread for no longer, nor the server's end.
constexpr std::chrono::seconds kPatienceWithClients{2};
constexpr Duration kStart = std::chrono::seconds(5);
constexpr Duration kLookIfStarted = std::chrono::milliseconds(1);

// In a time that does not tell how much of it is right.
bool is_same_secret(std::string_view given, std::string_view wanted) {
  unsigned different = given.size() == wanted.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i)
    different |= static_cast<unsigned char>(given[i] ^ wanted[i % wanted.size()]);
  return different == 0;
}

bool shows_token(const httplib::Request& request, const std::string& token) {
  if (token.empty()) return true;
  const std::string header = request.get_header_value("Authorization");
  return header.starts_with(kBearer) &&
         is_same_secret(std::string_view(header).substr(kBearer.size()), token);
}

bool asks_for_loopback(const httplib::Request& request) {
  const std::string host = request.get_header_value("Host");
  const auto colon = host.rfind(':');
  const bool has_port = colon != host.npos && !host.ends_with(']');
  return std::ranges::find(kOwnNames, host.substr(0, has_port ? colon : host.npos)) !=
         std::end(kOwnNames);
}

// httplib lets several processes share a port, and requests would go to any of them.
void use_port_alone(int socket) {
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

Result<std::unique_ptr<httplib::Server>> create_server(const HttpOptions& options) {
  if (options.certificate.empty())
    return std::unique_ptr<httplib::Server>(std::make_unique<httplib::Server>());
  auto server =
      std::make_unique<httplib::SSLServer>(options.certificate.c_str(), options.key.c_str());
  if (server->is_valid()) return std::unique_ptr<httplib::Server>(std::move(server));
  return fail(ErrorCode::kInvalid,
              fmt::format("[serve] {} and {} are no certificate and key in PEM that belong "
                          "together, or cannot be read",
                          options.certificate, options.key));
}

void answer(const HttpOptions& options, const HttpHandler& handler, const httplib::Request& request,
            httplib::Response& response) {
  if (!shows_token(request, options.token)) {
    response.status = 401;
    return response.set_header("WWW-Authenticate", "Bearer");
  }
  if (options.only_loopback_names && !asks_for_loopback(request)) {
    response.status = 403;
    return;
  }
  const auto found = handler(request.path);
  if (found) return response.set_content(found->body, found->type.c_str());
  response.status = 404;
}

void set_up(httplib::Server& server, const HttpOptions& options, HttpHandler handler) {
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_socket_options(use_port_alone);
  server.set_keep_alive_max_count(1);
  server.set_keep_alive_timeout(kPatienceWithClients.count());
  server.set_read_timeout(kPatienceWithClients);
  server.set_write_timeout(kPatienceWithClients);
  server.set_payload_max_length(kLongestRequest);
  server.Get(".*", [options, handler = std::move(handler)](const auto& request, auto& response) {
    answer(options, handler, request, response);
  });
}

// The port that it has got; nothing: none.
std::optional<std::uint16_t> bind(httplib::Server& server, const net::Address& address) {
  if (address.port != 0) {
    if (!server.bind_to_port(address.host, address.port)) return std::nullopt;
    return address.port;
  }
  const int port = server.bind_to_any_port(address.host);
  return port > 0 ? std::optional(static_cast<std::uint16_t>(port)) : std::nullopt;
}

class ThreadedServer final : public HttpServer {
 public:
  ThreadedServer(std::unique_ptr<httplib::Server> server, std::string url)
      : server_(std::move(server)), url_(std::move(url)), thread_([this] { serve(); }) {}
  ~ThreadedServer() override {
    server_->stop();
    thread_.join();
  }
  std::string url() const override { return url_; }

  // Before it runs it could not be stopped.
  Status wait_until_it_runs() {
    const Deadline deadline = Deadline::after(system_clock(), kStart);
    while (!server_->is_running() && !ended_ && !deadline.passed(system_clock()))
      pause(system_clock(), kLookIfStarted);
    if (!ended_) return ok();
    return outcome_;
  }

 private:
  // It has threads of its own, which may not be had.
  void serve() {
    outcome_ = without_exceptions("serve", [this] {
      server_->listen_after_bind();
      return ok();
    });
    ended_ = true;
  }

  const std::unique_ptr<httplib::Server> server_;
  const std::string url_;
  Status outcome_;  // once it has ended
  std::atomic<bool> ended_{false};
  std::thread thread_;  // last: uses the others
};

}  // namespace

Result<std::unique_ptr<HttpServer>> open_http_server(const HttpOptions& options,
                                                     HttpHandler handler) {
  MUSTER_ASSIGN(auto server, create_server(options));
  set_up(*server, options, std::move(handler));
  const auto port = bind(*server, options.address);
  if (!port)
    return fail(ErrorCode::kUnavailable,
                fmt::format("[serve] {} cannot be had: somebody else has the port, or it is no "
                            "address of this host; 0 takes any port",
                            to_string(options.address)));
  std::string url = fmt::format("{}://{}", options.certificate.empty() ? "http" : "https",
                                to_string(net::Address{options.address.host, *port}));
  auto started = std::make_unique<ThreadedServer>(std::move(server), std::move(url));
  MUSTER_TRY(started->wait_until_it_runs());
  return std::unique_ptr<HttpServer>(std::move(started));
}

}  // namespace muster::app
