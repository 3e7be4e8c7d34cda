#include <fmt/format.h>

#include <optional>
#include <utility>

#include "muster/job/draft.h"
#include "muster/job/listen_address.h"

namespace muster::job {
namespace {

constexpr std::string_view kThisHost = "127.0.0.1";

struct Listen {
  std::string host;
  std::string port;
};

// "9464" and ":9464" are ports of the loopback. Nothing: it is no address, or one of IPv6 without
// the brackets that set it apart from a port.
std::optional<Listen> read_listen(std::string_view text) {
  const auto colon = text.rfind(':');
  const bool is_bare = text.find(':') != colon && !text.starts_with('[');
  if (is_bare || text.ends_with(']')) return std::nullopt;
  Listen listen{std::string(colon == text.npos || colon == 0 ? kThisHost : text.substr(0, colon)),
                std::string(colon == text.npos ? text : text.substr(colon + 1))};
  if (!is_port(listen.port)) return std::nullopt;
  return listen;
}

bool is_loopback(std::string_view host) {
  const bool is_number = host.find_first_not_of("0123456789.") == host.npos;
  return host == "localhost" || host == "[::1]" || (is_number && host.starts_with("127."));
}

// What guards a place that nobody can come to was meant for one.
void check_listens(Draft& draft) {
  const PrometheusSpec& spec = draft.spec.prometheus;
  const std::pair<const char*, const std::string&> guards[] = {
      {"prometheus.token_file", spec.token_file},
      {"prometheus.certificate", spec.certificate},
      {"prometheus.key", spec.key}};
  for (const auto& [field, value] : guards)
    if (!value.empty())
      draft.complain({field},
                     fmt::format("{} is given, and there is no endpoint that it guards", field),
                     "give prometheus.listen, for example `0.0.0.0:9464`, or leave it out");
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
  if (spec.listen.empty()) return check_listens(draft);
  const auto listen = read_listen(spec.listen);
  if (!listen)
    return draft.complain(
        {"prometheus.listen"},
        fmt::format("prometheus.listen: `{}` is no port and no host:port", spec.listen),
        "for example `9464`, for this host alone, or `[::1]:9464`");
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
