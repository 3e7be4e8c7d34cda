#pragma once
// Until when tests wait for what has to come. Any thread.

#include "muster/base/clock.h"

namespace muster::testing {

// Bounds a hang and decides nothing else: under a sanitizer, with others beside it on few cores,
// what takes a second elsewhere takes a minute.
inline constexpr Duration kHang = std::chrono::minutes(4);
inline Deadline soon() { return Deadline::after(system_clock(), kHang); }

}  // namespace muster::testing
