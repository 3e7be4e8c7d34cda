#pragma once
// Names of a trainer's phases that others act upon: traces, the live view, the coordinator.

#include <string_view>

namespace muster {

inline constexpr std::string_view kWaitingForData = "waiting for data";  // a step begins with it
inline constexpr std::string_view kComputingGradients = "computing and reducing gradients";
inline constexpr std::string_view kUpdating = "updating";
inline constexpr std::string_view kWaitingForGeneration =
    "waiting for the next generation";  // a recovery begins with it

}  // namespace muster
