#pragma once
// Where the chunks of a pipeline lie, as one rank sees it: those of its own replica. The stages of
// a replica are neighbouring ranks. Immutable.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "muster/base/ids.h"
#include "muster/comm/communicator.h"
#include "muster/layout/pipeline/schedule.h"

namespace muster::parallel {

struct ChunkPlaces {
  std::vector<layout::Stage> stage_of;  // by chunk
  std::int32_t stages = 1;
  comm::Group group = {};

  std::size_t last_chunk() const noexcept { return stage_of.size() - 1; }
  Rank rank_of(std::size_t chunk) const {
    const std::int32_t replica = to_int(group.rank) / stages;
    return Rank{replica * stages + static_cast<std::int32_t>(stage_of.at(chunk))};
  }
  bool is_mine(std::size_t chunk) const { return rank_of(chunk) == group.rank; }
};

}  // namespace muster::parallel
