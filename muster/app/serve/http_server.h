#pragma once
// A small http server for what a launcher or a command shows: GET, and nothing else.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/result.h"
#include "muster/net/network.h"

namespace muster::app {

struct HttpAnswer {
  std::string type;  // "text/html; charset=utf-8"
  std::string body;
};
// What there is at a path; nothing: 404. Any thread.
using HttpHandler = std::function<std::optional<HttpAnswer>(std::string_view path)>;

struct HttpOptions {
  net::Address address;     // port 0: any
  std::string token;        // that a client must show as a bearer; empty: none. Others get 401
  std::string certificate;  // PEM files, of https; empty: http
  std::string key;
  // Only who asked for this host by one of its own names is answered; a page of a stranger that a
  // browser shows may ask for 127.0.0.1 by a name of its choice.
  bool only_loopback_names = false;
};

class HttpServer {
 public:
  virtual ~HttpServer() = default;      // it answers nobody any more
  virtual std::string url() const = 0;  // "http://127.0.0.1:9464"
};

// Answers from now on, on threads of its own. kUnavailable: the port cannot be had; kInvalid: the
// certificate or key cannot be used.
Result<std::unique_ptr<HttpServer>> open_http_server(const HttpOptions& options,
                                                     HttpHandler handler);

}  // namespace muster::app
