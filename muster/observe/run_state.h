#pragma once
// What became of a run.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster::observe {

enum class RunState : std::uint8_t {
  kRunning,
  kFinished,
  kStopped,  // somebody told it to end
  kFailed,   // or its launcher was killed
};
inline constexpr RunState kRunStates[] = {RunState::kRunning, RunState::kFinished,
                                          RunState::kStopped, RunState::kFailed};

constexpr std::string_view to_string(RunState state) noexcept {
  constexpr std::string_view kNames[] = {"running", "finished", "stopped", "failed"};
  return kNames[static_cast<std::size_t>(state)];
}

}  // namespace muster::observe
