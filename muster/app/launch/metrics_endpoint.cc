#include "muster/app/launch/metrics_endpoint.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/trimmed.h"

namespace muster::app {
namespace {

constexpr std::string_view kTextFormat = "text/plain; version=0.0.4; charset=utf-8";

Result<std::string> read_token(const job::PrometheusSpec& spec, Files& files) {
  if (spec.token_file.empty()) return std::string();
  auto text = files.read(spec.token_file);
  if (!text) return with_context(text.error(), "[prometheus] prometheus.token_file");
  std::string token(trimmed(*text, " \t\r\n"));
  if (!token.empty()) return token;
  return fail(ErrorCode::kInvalid,
              fmt::format("[prometheus] prometheus.token_file: {} is empty, and anybody would have "
                          "the token; `openssl rand -hex 32` makes one",
                          spec.token_file));
}

}  // namespace

Result<std::unique_ptr<HttpServer>> open_metrics_endpoint(const job::PrometheusSpec& spec,
                                                          std::function<std::string()> text,
                                                          Files& files) {
  HttpOptions options{.address = {},
                      .token = {},
                      .certificate = spec.certificate,
                      .key = spec.key,
                      .only_loopback_names = false};
  MUSTER_ASSIGN(options.address, net::parse_address(spec.listen));
  MUSTER_ASSIGN(options.token, read_token(spec, files));
  auto server = open_http_server(options, [text = std::move(text)](std::string_view path) {
    return path == "/metrics" ? std::optional(HttpAnswer{std::string(kTextFormat), text()})
                              : std::nullopt;
  });
  if (server) return server;
  return with_context(server.error(), "[prometheus] prometheus.listen, certificate, key");
}

}  // namespace muster::app
