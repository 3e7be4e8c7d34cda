#pragma once
// For strategies in which several ranks hold or compute one replica together: who they are is fixed
// when the strategy is made. Pure; any thread.

#include <string_view>

#include "muster/base/result.h"
#include "muster/comm/communicator.h"

namespace muster::parallel {

// kUnavailable where a generation has other ranks, or this one at another place, than the strategy
// was made for. `strategy`: its name in messages; `spread`: how what is spread, of which {} is the
// number of ranks, such as "the blocks lie on {} ranks".
Status check_same_place(const comm::Group& made_for, const comm::Group& generation,
                        std::string_view strategy, std::string_view spread);

}  // namespace muster::parallel
