#include "muster/cli/launch_place.h"

#include <fmt/format.h>

#include <optional>

#include "muster/base/number.h"

namespace muster::cli {
namespace {

constexpr std::int32_t kMostRanks = 65536;
constexpr std::uint16_t kUsualPort = 29500;  // torch's own

Result<std::int32_t> number(const std::optional<LaunchWord>& told, std::int32_t usual,
                            std::int32_t least, std::int32_t most) {
  if (!told) return usual;
  const auto value = number_from<std::int32_t>(told->text);
  if (value && *value >= least && *value <= most) return *value;
  return not_as_expected(*told, fmt::format("a number from {} to {}", least, most));
}

Result<std::int32_t> number_of_nodes(const std::optional<LaunchWord>& told) {
  // "2:2", as people write who have come from an elastic job.
  const auto colon = told ? told->text.find(':') : std::string::npos;
  if (colon == std::string::npos) return number(told, 1, 1, kMostRanks);
  const std::string least = told->text.substr(0, colon);
  if (least == told->text.substr(colon + 1))
    return number(LaunchWord{least, told->where}, 1, 1, kMostRanks);
  return not_as_expected(
      *told,
      "one number: a program of one's own has as many hosts as it begins with (jobs of "
      "muster train may grow and shrink)");
}

Result<std::int32_t> processes_per_node(const std::optional<LaunchWord>& told, std::int32_t cores) {
  if (told && (told->text == "auto" || told->text == "cpu")) return cores;
  auto count = number(told, 1, 1, kMostRanks);
  if (count || told->text != "gpu") return count;
  return not_as_expected(*told, fmt::format("`auto`, which is one process a core ({} here), or how "
                                            "many processes: muster trains on cpu",
                                            cores));
}

Result<net::Address> meeting_of(const LaunchFlags& given, const LaunchWords& flags) {
  net::Address meeting{"", kUsualPort};
  if (const auto endpoint = flags.read(given.endpoint, "--rdzv-endpoint")) {
    const bool has_port = endpoint->text.rfind(':') != std::string::npos;
    const auto parsed = net::parse_address(
        has_port ? endpoint->text : fmt::format("{}:{}", endpoint->text, kUsualPort));
    if (!parsed) return not_as_expected(*endpoint, "HOST or HOST:PORT of the first node");
    meeting = *parsed;
  }
  if (const auto host = flags.read(given.master_host, "--master-addr")) meeting.host = host->text;
  MUSTER_ASSIGN(const auto port,
                number(flags.read(given.master_port, "--master-port"), meeting.port, 1, 65535));
  meeting.port = static_cast<std::uint16_t>(port);
  return meeting;
}

}  // namespace

Result<LaunchPlace> launch_place(const LaunchFlags& given,
                                 const std::map<std::string, std::string>& environment,
                                 std::int32_t cores) {
  const LaunchWords flags(environment);
  LaunchPlace place;
  MUSTER_ASSIGN(place.per_node,
                processes_per_node(flags.read(given.per_node, "--nproc-per-node"), cores));
  MUSTER_ASSIGN(place.nodes, number_of_nodes(flags.read(given.nodes, "--nnodes")));
  MUSTER_ASSIGN(place.max_restarts,
                number(flags.read(given.max_restarts, "--max-restarts"), 0, 0, 1'000'000));
  if (const auto id = flags.read(given.id, "--rdzv-id")) place.id = id->text;
  if (place.nodes == 1) return place;
  if (std::int64_t{place.nodes} * place.per_node > kMostRanks)
    return fail(ErrorCode::kInvalid,
                fmt::format("[launch] {} nodes of {} processes each are more than {}", place.nodes,
                            place.per_node, kMostRanks));
  const auto rank = flags.read(given.node_rank, "--node-rank");
  if (!rank)
    return fail(ErrorCode::kInvalid,
                fmt::format("[launch] --node-rank is missing: which of the {} nodes is this, from "
                            "0 on?",
                            place.nodes));
  MUSTER_ASSIGN(place.node_rank, number(rank, 0, 0, place.nodes - 1));
  MUSTER_ASSIGN(place.meeting, meeting_of(given, flags));
  if (const auto local = flags.read(given.local_host, "--local-addr"))
    place.local_host = local->text;
  if (place.meeting.host.empty())
    return fail(ErrorCode::kInvalid,
                "[launch] --rdzv-endpoint HOST:PORT (or --master-addr) is missing: an address of "
                "the first node that all reach, the same on all");
  return place;
}

}  // namespace muster::cli
