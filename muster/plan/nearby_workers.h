#pragma once
// Numbers of workers that a job could have instead of its own. Pure.

#include <cstdint>
#include <vector>

namespace muster::plan {

// Those but `workers` that share `slices` evenly, the nearest first: twice as many are as near as
// half of them, which come first, for they are there. Four at most.
std::vector<std::int32_t> nearby_workers(std::int32_t workers, std::int32_t slices);

}  // namespace muster::plan
