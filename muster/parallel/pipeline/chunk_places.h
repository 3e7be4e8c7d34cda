#pragma once
// Where the chunks of a pipeline lie, as one rank sees it: those of its own replica. Immutable.

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/ids.h"
#include "muster/comm/communicator.h"
#include "muster/layout/pipeline/schedule.h"

namespace muster::parallel {

struct ChunkPlaces {
  std::vector<layout::Stage> stage_of;  // by chunk
  std::vector<Rank> ranks;              // by stage
  Rank own{0};

  std::size_t last_chunk() const noexcept { return stage_of.size() - 1; }
  Rank rank_of(std::size_t chunk) const {
    return ranks.at(static_cast<std::size_t>(stage_of.at(chunk)));
  }
  bool is_mine(std::size_t chunk) const { return rank_of(chunk) == own; }

  // For people: "stage 0 → 1"; where stages have several chunks "stage 0 → 1, chunk 2 → 3".
  std::string way(std::size_t from, std::size_t to) const {
    const auto stage = [this](std::size_t chunk) {
      return static_cast<std::int32_t>(stage_of.at(chunk));
    };
    std::string way = fmt::format("stage {} → {}", stage(from), stage(to));
    if (stage_of.size() > ranks.size()) way += fmt::format(", chunk {} → {}", from, to);
    return way;
  }
};

}  // namespace muster::parallel
