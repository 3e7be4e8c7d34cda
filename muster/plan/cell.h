#pragma once
// What the pictures of a pipeline are made of: one action at its time.

#include <cstdint>
#include <string>
#include <vector>

#include "muster/plan/simulate.h"

namespace muster::plan {

struct Cell {
  layout::ActionKind kind;
  std::int32_t micro_batch;
  std::int32_t turn;   // which of the stage's chunks
  std::int32_t turns;  // how many it has
  layout::ActionTime time;

  char letter() const noexcept;  // F, B, W
};

std::vector<std::vector<Cell>> cells_of(const PipelineSimulation& simulation);  // by stage

}  // namespace muster::plan
