#include "muster/app/worker/shared_costs.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/cluster/store.h"

namespace muster::app {
namespace {

using nlohmann::json;

const std::string kKey = "pipeline/costs of blocks";

std::string encode(const std::vector<Duration>& costs) {
  json ticks = json::array();
  for (const Duration cost : costs) ticks.push_back(cost.count());
  return ticks.dump();
}

Result<std::vector<Duration>> decode(const cluster::Bytes& value) {
  const json ticks = json::parse(cluster::to_string(value), nullptr, false);
  std::vector<Duration> costs;
  for (const json& tick : ticks) {
    if (!tick.is_number_integer())
      return fail(ErrorCode::kCorrupt, "[worker/costs] the job's store has no costs of blocks");
    costs.emplace_back(tick.get<std::int64_t>());
  }
  return costs;
}

Result<std::vector<Duration>> share_in_generation(
    Session& session, Deadline deadline,
    const std::function<Result<std::vector<Duration>>()>& measure) {
  const auto store = session.member().store(session.communicator()->group().generation);
  if (!session.first_rank()) {
    MUSTER_ASSIGN(const cluster::Bytes value, store->get(kKey, deadline));
    return decode(value);
  }
  MUSTER_ASSIGN(const std::vector<Duration> own, measure());
  MUSTER_ASSIGN(const cluster::Bytes value,
                store->compare_exchange(kKey, {}, cluster::to_bytes(encode(own)), deadline));
  return decode(value);
}

}  // namespace

Result<std::vector<Duration>> share_costs(
    Session& session, const job::JobSpec& job,
    const std::function<Result<std::vector<Duration>>()>& measure) {
  const Duration patience = job.communication.timeout + job.workers.join_timeout;
  for (;;) {
    auto costs = share_in_generation(session, Deadline::after(system_clock(), patience), measure);
    if (costs || !session.outlives(costs.error())) return costs;
    MUSTER_ASSIGN(const auto entry, session.next(costs.error(), job.communication.timeout));
    if (!entry)
      return fail(ErrorCode::kCancelled, "[worker/costs] the training is over without this worker");
  }
}

}  // namespace muster::app
