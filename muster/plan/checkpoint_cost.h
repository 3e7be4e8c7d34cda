#pragma once
// What a save takes on the worker that writes it: the copy from which it is written beside the
// training (checkpoint/async_saver.h), and what it has got of the others for that
// (parallel/gather_state.h). Pure.

#include <cstdint>

#include "muster/plan/way.h"

namespace muster::plan {

// Bytes that a save adds to the most that there was before it; 0 where the job saves nothing.
// `here`: of the state's tensors, those that the first worker holds whole anyway. `given_back`: of
// what the passes had at their peak, what is free by then.
std::uint64_t checkpoint_bytes(const ModelProfile& whole, const Way& way, std::uint64_t here,
                               std::uint64_t given_back);

// `here` of a worker that runs its slices through all blocks. `cut`: with cut tensors or dealt
// experts, the elements of trained parameters that it holds, and not in part only.
std::uint64_t state_held_whole(const ModelProfile& whole, const Way& way, std::int64_t cut);

}  // namespace muster::plan
