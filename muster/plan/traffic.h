#pragma once
// What one rank moves in a collective, from its schedule (comm/schedule.h). Pure.

#include <cstddef>
#include <cstdint>

#include "muster/comm/schedule.h"
#include "muster/layout/pipeline/times.h"

namespace muster::plan {

struct Traffic {
  std::int64_t sent = 0;      // elements
  std::int64_t received = 0;  // elements
  std::int64_t messages = 0;  // received
};

Traffic traffic_of(const comm::Schedule& schedule);
Duration time_of(const Traffic& traffic, std::size_t element, const layout::LinkCost& link);

comm::Shards even_shards(std::int64_t count, std::int32_t ranks);

}  // namespace muster::plan
