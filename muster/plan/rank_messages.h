#pragma once
// What ranks that hold a model's tensors between them, or share its sequences, tell each other in a
// step, as the layers were found to do it (ModelProfile::cuts), in the schedules that it runs with.
// Pure.

#include <cstdint>

#include "muster/plan/model_profile.h"
#include "muster/plan/way.h"

namespace muster::plan {

struct MessageCost {        // of the first rank, in a step
  std::uint64_t bytes = 0;  // handed to the communicator
  std::uint64_t sent = 0;
  std::uint64_t largest = 0;  // of one message
  Duration time{};            // nobody computes meanwhile
};

MessageCost message_cost(const CutProfile& cut, const Way& way, const Hardware& hardware);

}  // namespace muster::plan
