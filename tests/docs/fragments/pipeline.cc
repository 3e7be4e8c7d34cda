// What stands around the block of docs/pipeline.md: page.py puts it in as block.inc.
#include <iostream>

#include "muster/base/result.h"
#include "muster/layout/pipeline/make.h"
#include "muster/plan/simulate.h"
#include "muster/plan/timeline.h"

namespace muster {

Status draw(const layout::PipelineCosts& costs, const std::vector<plan::ChunkMemory>& memory) {
#include "block.inc"
  return {};
}

}  // namespace muster
