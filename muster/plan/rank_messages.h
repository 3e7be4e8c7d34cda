#pragma once
// What ranks that hold a model's tensors or experts between them, or share its sequences, tell each
// other in a step, as the layers were found to do it (ModelProfile::cuts), in the schedules that it
// runs with. Pure.

#include <cstdint>
#include <vector>

#include "muster/layout/partition.h"
#include "muster/plan/model_profile.h"
#include "muster/plan/way.h"

namespace muster::plan {

struct MessageCost {        // of the first rank, in a step
  std::uint64_t bytes = 0;  // handed to the communicator
  std::uint64_t sent = 0;
  std::uint64_t largest = 0;  // of one message
  Duration passes{};          // nobody computes meanwhile
  Duration after{};           // the last pass
};

// Of one that has these blocks. `whole`: elements of their trained parameters that are not cut.
MessageCost message_cost(const CutProfile& cut, const std::vector<layout::BlockRange>& blocks,
                         std::int64_t whole, const Way& way, const Hardware& hardware);

struct BlockWaits {  // of a block in one pass, for messages
  Duration forward{};
  Duration backward{};
};
std::vector<BlockWaits> waits_of(const CutProfile& cut, const Way& way, const Hardware& hardware);

// Elements of the trained parameters of these blocks that every rank has whole.
std::int64_t whole_elements(const ModelProfile& whole, const CutProfile& cut,
                            const std::vector<layout::BlockRange>& blocks);

}  // namespace muster::plan
