#include "muster/plan/traffic.h"

#include <algorithm>

namespace muster::plan {

using comm::ScheduleStep;

Traffic traffic_of(const comm::Schedule& schedule) {
  Traffic traffic;
  for (const ScheduleStep& step : schedule.steps) {
    if (step.kind == ScheduleStep::Kind::kSend) traffic.sent += step.from.count;
    if (step.kind != ScheduleStep::Kind::kRecv) continue;
    traffic.received += step.to.count;
    ++traffic.messages;
  }
  return traffic;
}

Duration time_of(const Traffic& traffic, std::size_t element, const layout::LinkCost& link) {
  const auto bytes = static_cast<std::uint64_t>(std::max(traffic.sent, traffic.received)) * element;
  return traffic.messages * link.latency + link.transfer(bytes);
}

comm::Shards even_shards(std::int64_t count, std::int32_t ranks) {
  comm::Shards shards{{0}};
  for (std::int32_t r = 0; r < ranks; ++r) {
    const comm::Slice slice = comm::even_slice(comm::Space::kOutput, count, ranks, r);
    shards.begin.push_back(slice.begin + slice.count);
  }
  return shards;
}

}  // namespace muster::plan
