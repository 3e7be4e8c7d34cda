#include <fmt/format.h>

#include <optional>
#include <utility>

#include "muster/job/draft.h"
#include "muster/job/listen_address.h"

namespace muster::job {
namespace {

constexpr std::string_view kExample = "for example `http://127.0.0.1:5000`";

// Of "http://user:secret@host:port/path": "user:secret" and "host:port".
struct Authority {
  std::optional<std::string_view> account;
  std::string_view host_and_port;
};

Authority authority_of(std::string_view uri) {
  const std::string_view behind = uri.substr(uri.find("://") + 3);
  const std::string_view whole = behind.substr(0, behind.find_first_of("/?#"));
  const auto at = whole.rfind('@');
  if (at == whole.npos) return {std::nullopt, whole};
  return {whole.substr(0, at), whole.substr(at + 1)};
}

// "[::1]:5000" has colons of its own.
std::optional<std::string_view> port_of(std::string_view host_and_port) {
  const auto colon = host_and_port.rfind(':');
  const auto bracket = host_and_port.rfind(']');
  const bool none =
      colon == host_and_port.npos || (bracket != host_and_port.npos && colon < bracket);
  return none ? std::nullopt : std::optional(host_and_port.substr(colon + 1));
}

// What of it is wrong, and what to do; empty where nothing is.
struct Wrong {
  std::string what;
  std::string cure;
};

Wrong wrong_address(std::string_view uri) {
  const Authority authority = authority_of(uri);
  if (authority.account)
    return {"mlflow.tracking_uri has an account in it, which the run's folder would keep",
            "leave it out, and set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or "
            "MLFLOW_TRACKING_TOKEN"};
  const auto port = port_of(authority.host_and_port);
  const std::string_view host =
      port ? authority.host_and_port.substr(0, authority.host_and_port.size() - port->size() - 1)
           : authority.host_and_port;
  if (host.empty())
    return {fmt::format("mlflow.tracking_uri: `{}` names no host", uri), std::string(kExample)};
  if (port && !is_port(*port))
    return {
        fmt::format("mlflow.tracking_uri: `{}` is no port, which is a number of 0 to 65535", *port),
        std::string(kExample)};
  if (const auto wrong = wrong_number(std::string(host)); !wrong.empty())
    return {fmt::format("mlflow.tracking_uri {}: {}", uri, wrong), std::string(kExample)};
  if (uri.find_first_of("?# ") != uri.npos)
    return {fmt::format("mlflow.tracking_uri: `{}` is more than an address", uri),
            std::string(kExample)};
  return {};
}

void check_unused_mlflow(Draft& draft) {
  const MlflowSpec& spec = draft.spec.mlflow;
  const std::pair<std::string_view, const std::string&> others[] = {
      {"mlflow.experiment", spec.experiment},
      {"mlflow.run_name", spec.run_name},
      {"mlflow.token_file", spec.token_file},
      {"mlflow.certificate", spec.certificate}};
  for (const auto& [field, value] : others) {
    if (!value.empty())
      return draft.complain({field},
                            fmt::format("{} is given, but not mlflow.tracking_uri, without which "
                                        "nothing is sent",
                                        field),
                            fmt::format("say where the server is, {}", kExample));
  }
}

}  // namespace

void resolve_mlflow(Draft& draft) {
  MlflowSpec& spec = draft.spec.mlflow;
  if (spec.tracking_uri.empty()) return check_unused_mlflow(draft);
  while (spec.tracking_uri.ends_with('/')) spec.tracking_uri.pop_back();
  if (!spec.tracking_uri.starts_with("http://") && !spec.tracking_uri.starts_with("https://"))
    return draft.complain(
        {"mlflow.tracking_uri"},
        fmt::format("mlflow.tracking_uri: `{}` is no http:// or https:// address",
                    spec.tracking_uri),
        fmt::format("muster speaks to a server, {}; `mlflow server` starts one on a database or "
                    "a folder",
                    kExample));
  if (const Wrong wrong = wrong_address(spec.tracking_uri); !wrong.what.empty())
    return draft.complain({"mlflow.tracking_uri"}, wrong.what, wrong.cure);
  if (!spec.experiment.empty()) return;
  spec.experiment = draft.spec.name;
  draft.derive("mlflow.experiment", "name");
}

}  // namespace muster::job
