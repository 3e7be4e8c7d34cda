#include <fmt/format.h>

#include <optional>

#include "muster/job/draft.h"
#include "muster/job/listen_address.h"

namespace muster::job {
namespace {

constexpr std::string_view kThisHost[] = {"127.0.0.1", "localhost", "[::1]", "::1"};

struct Listen {
  std::string host;
  std::string port;
};

// "9464" and ":9464" are ports of the loopback. Nothing: it is no address.
std::optional<Listen> read_listen(std::string_view text) {
  const auto colon = text.rfind(':');
  Listen listen{
      std::string(colon == text.npos || colon == 0 ? kThisHost[0] : text.substr(0, colon)),
      std::string(colon == text.npos ? text : text.substr(colon + 1))};
  if (!is_port(listen.port)) return std::nullopt;
  return listen;
}

bool is_loopback(std::string_view host) {
  for (const std::string_view own : kThisHost) {
    if (host == own) return true;
  }
  return false;
}

void check_certificate(Draft& draft) {
  const PrometheusSpec& spec = draft.spec.prometheus;
  if (spec.certificate.empty() == spec.key.empty()) return;
  draft.complain({"prometheus.certificate", "prometheus.key"},
                 "prometheus.certificate and prometheus.key belong together, and one is missing",
                 "give both, for https, or neither");
}

}  // namespace

void resolve_prometheus(Draft& draft) {
  PrometheusSpec& spec = draft.spec.prometheus;
  if (spec.listen.empty()) return;
  const auto listen = read_listen(spec.listen);
  if (!listen)
    return draft.complain(
        {"prometheus.listen"},
        fmt::format("prometheus.listen: `{}` is no port and no host:port", spec.listen),
        "for example `9464`, for this host alone");
  if (const auto wrong = wrong_number(listen->host); !wrong.empty())
    return draft.complain({"prometheus.listen"},
                          fmt::format("prometheus.listen {}: {}", spec.listen, wrong),
                          "for example `9464`, for this host alone");
  check_certificate(draft);
  spec.listen = listen->host + ":" + listen->port;
  if (is_loopback(listen->host) || !spec.token_file.empty() || !spec.certificate.empty()) return;
  draft.complain({"prometheus.listen"},
                 fmt::format("prometheus.listen {} is open to other hosts, and anybody could read "
                             "it",
                             spec.listen),
                 fmt::format("give prometheus.token_file, or prometheus.certificate and key; or "
                             "the port alone, `{}`, for this host",
                             listen->port));
}

}  // namespace muster::job
