#pragma once
// Limits that fields have and what is derived for them keeps, so that a job, once resolved, can be
// read again, and counts of samples stay far from the end of their type.

#include <cstdint>

namespace muster::job {

inline constexpr std::int64_t kMostSamples = std::int64_t{1} << 30;  // of a step
inline constexpr std::int64_t kMostPassed = std::int64_t{1} << 20;   // through a model at once

}  // namespace muster::job
