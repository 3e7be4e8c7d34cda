#include "muster/cluster/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

namespace muster::cluster {
namespace {

constexpr const char* kHostIsWatched = "MUSTER_HOST_IS_WATCHED";

Result<std::string> need(const VariableLookup& variable, const std::string& name) {
  if (auto value = variable(name)) return *std::move(value);
  return fail(ErrorCode::kNotFound,
              fmt::format("[cluster/environment] {} is not set; start this program with muster's "
                          "launcher",
                          name));
}

Result<std::int32_t> need_number(const VariableLookup& variable, const std::string& name,
                                 std::int32_t least) {
  MUSTER_TRY(need(variable, name));
  MUSTER_ASSIGN(const auto value, number_in(variable, name, least));
  return *value;
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace

std::map<std::string, std::string> to_variables(const WorkerEnvironment& environment) {
  const auto& e = environment;
  return {{"MUSTER_COORDINATOR", net::to_string(e.coordinator)},
          {"MUSTER_WORKER", std::to_string(e.worker)},
          {"MUSTER_WORLD_SIZE", std::to_string(e.workers)},
          {"MUSTER_LANES", std::to_string(e.lanes)},
          {net::kCredentialsVariable, e.credentials},
          {"MUSTER_WHEREABOUTS", e.whereabouts},
          {kHostIsWatched, e.host_is_watched ? "1" : "0"},
          {"RANK", std::to_string(e.worker)},
          {"WORLD_SIZE", std::to_string(e.workers)},
          {"LOCAL_RANK", std::to_string(e.local_worker)},
          {"LOCAL_WORLD_SIZE", std::to_string(e.local_workers)},
          {"MASTER_ADDR", e.coordinator.host},
          {"MASTER_PORT", std::to_string(e.coordinator.port)}};
}

Result<WorkerEnvironment> read_environment(const VariableLookup& variable) {
  WorkerEnvironment environment;
  MUSTER_ASSIGN(const std::string coordinator, need(variable, "MUSTER_COORDINATOR"));
  auto address = net::parse_address(coordinator);
  if (!address) return with_context(address.error(), "[cluster/environment] MUSTER_COORDINATOR");
  environment.coordinator = std::move(*address);
  MUSTER_ASSIGN(environment.credentials, need(variable, net::kCredentialsVariable));
  environment.whereabouts = variable("MUSTER_WHEREABOUTS").value_or("");
  environment.host_is_watched = variable(kHostIsWatched) == "1";
  MUSTER_ASSIGN(environment.worker, need_number(variable, "MUSTER_WORKER", 0));
  MUSTER_ASSIGN(environment.workers, need_number(variable, "MUSTER_WORLD_SIZE", 1));
  MUSTER_ASSIGN(environment.lanes, need_number(variable, "MUSTER_LANES", 1));
  MUSTER_ASSIGN(environment.local_worker, need_number(variable, "LOCAL_RANK", 0));
  MUSTER_ASSIGN(environment.local_workers, need_number(variable, "LOCAL_WORLD_SIZE", 1));
  return environment;
}

WorkerInfo describe_this_process(std::int32_t worker, Files& files) {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  // Absent where /proc is hidden: then nobody is taken to share this host's memory.
  auto boot_id = files.read("/proc/sys/kernel/random/boot_id");
  return {
      worker, host.data(), boot_id ? trimmed(std::move(*boot_id)) : std::string(), ::getpid(), {}};
}

}  // namespace muster::cluster
