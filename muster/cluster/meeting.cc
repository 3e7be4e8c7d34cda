#include "muster/cluster/meeting.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "muster/base/units.h"
#include "muster/cluster/variables.h"
#include "muster/net/reach.h"

namespace muster::cluster {
namespace {

constexpr Duration kUsualPatience = std::chrono::seconds(60);
constexpr const char* kKnown = "-";  // for credentials: everybody has them already

}  // namespace

std::string meeting_key(const StartedBy& by) { return by.attempt + "/coordinator"; }

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

net::Address meeting_listen_address(const StartedBy& by) {
  const std::string& host = by.meeting.host;
  if (is_loopback(host)) return {host, 0};
  return {host.find(':') == std::string::npos ? "0.0.0.0" : "::", 0};
}

std::string doubt_about_meeting(const net::Address& meeting) {
  if (is_loopback(meeting.host)) return "";  // all are on one host
  const auto own = net::is_own_host(meeting.host);
  const auto here = net::local_host_towards(meeting);
  if (own && !*own)
    return fmt::format(
        "[world] {} (MASTER_ADDR) is no address of this host, where rank 0 is: other ranks do not "
        "reach it there, unless all its ports are passed on to here; set MASTER_ADDR, for all "
        "ranks, to {}",
        meeting.host, here ? fmt::format("{} or another of this host", *here) : "one of this host");
  // As Debian's own name of a host.
  if (here && is_loopback(*here))
    return fmt::format(
        "[world] {} (MASTER_ADDR) is {} on its own host: ranks on other hosts do not reach rank 0 "
        "there; set it to an address that they reach",
        meeting.host, *here);
  return "";
}

Result<std::string> address_for_others(const VariableLookup& variable,
                                       const net::Address& coordinator) {
  auto told = variable(kLocalAddressVariable);
  if (!told || told->empty()) return net::local_host_towards(coordinator);
  const auto own = net::is_own_host(*told);
  const std::string name =
      fmt::format("[world] {} (muster launch --local-addr)", kLocalAddressVariable);
  if (!own) return with_context(own.error(), name);
  if (*own) return *std::move(told);
  return fail(ErrorCode::kUnavailable,
              fmt::format("{} is {}, which is no address of this host: others do not reach it "
                          "there; give the address of the interface that they reach, or leave it "
                          "out",
                          name, *told));
}

Result<MeetingCredentials> meeting_credentials(WallTime now) {
  const auto known = system_variable(net::kCredentialsVariable);
  MUSTER_ASSIGN(auto credentials,
                known ? net::credentials_from_text(*known) : net::create_credentials(now));
  return MeetingCredentials{std::move(credentials), known.has_value()};
}

std::string meeting_text(const net::Address& place, const MeetingCredentials& credentials) {
  return fmt::format("{} {}", net::to_string(place),
                     credentials.are_known ? kKnown : net::to_text(credentials.credentials));
}

Result<Meeting> read_meeting(const std::string& text) {
  const auto blank = text.find(' ');
  MUSTER_ASSIGN(auto place, net::parse_address(text.substr(0, blank)));
  std::string credentials = blank == std::string::npos ? "" : text.substr(blank + 1);
  // Those of one's own are never given up for what the store says, which anybody may have written.
  const auto known = system_variable(net::kCredentialsVariable);
  if (known.has_value() != (credentials == kKnown))
    return fail(ErrorCode::kInvalid,
                fmt::format("[world] {} is set {}; set the same for all", net::kCredentialsVariable,
                            known ? "here and not for rank 0" : "for rank 0 and not here"));
  if (known) credentials = *known;
  return Meeting{std::move(place), std::move(credentials)};
}

Result<MeetingPatience> meeting_patience(const VariableLookup& variable,
                                         std::optional<Duration> of_job) {
  const auto told = variable(kJoinTimeoutVariable);
  if (!told && of_job) return MeetingPatience{*of_job, "workers.join_timeout"};
  if (!told) return MeetingPatience{kUsualPatience, kJoinTimeoutVariable};
  const auto parsed = parse_duration(*told);
  if (!parsed) return with_context(parsed.error(), fmt::format("[world] {}", kJoinTimeoutVariable));
  return MeetingPatience{*parsed, kJoinTimeoutVariable};
}

std::string to_line(const StoreErrand& errand) {
  const StartedBy& by = errand.by;
  const MeetingProcess& self = errand.self;
  return nlohmann::json{{"launcher", by.launcher}, {"rank", by.rank},
                        {"ranks", by.ranks},       {"host", by.meeting.host},
                        {"port", by.meeting.port}, {"is_served", by.is_served},
                        {"attempt", by.attempt},   {"own_host", self.host},
                        {"pid", self.pid},         {"program", self.program},
                        {"text", errand.text},     {"patience", errand.patience.count()}}
             .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

Result<StoreErrand> read_errand(std::string_view line) {
  try {
    const auto json = nlohmann::json::parse(line);
    return StoreErrand{.by = {.launcher = json.at("launcher").get<std::string>(),
                              .rank = json.at("rank").get<std::int32_t>(),
                              .ranks = json.at("ranks").get<std::int32_t>(),
                              .meeting = {json.at("host").get<std::string>(),
                                          json.at("port").get<std::uint16_t>()},
                              .is_served = json.at("is_served").get<bool>(),
                              .attempt = json.at("attempt").get<std::string>()},
                       .self = {.host = json.at("own_host").get<std::string>(),
                                .pid = json.at("pid").get<std::int32_t>(),
                                .program = json.at("program").get<std::string>()},
                       .patience = Duration(json.at("patience").get<std::int64_t>()),
                       .text = json.at("text").get<std::string>()};
  } catch (const std::exception& why) {
    return fail(ErrorCode::kInvalid, fmt::format("[world] no errand to a store: {}", why.what()));
  }
}

}  // namespace muster::cluster
