#pragma once
// Span: something that took time, for traces.

#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/ids.h"

namespace muster::observe {

enum class Track : std::uint8_t { kSteps, kPhases, kLane, kCommunication };

struct Span {
  Track track = Track::kPhases;
  std::int32_t lane = 0;  // of lanes; of operations that run at the same time, counted from 0
  // "updating", "backward", "all_reduce"; of steps "step", "start" before the first one, "broken
  // off" and "recovery" where a generation ended in one
  std::string name = {};
  std::string detail = {};  // what it worked on: "slice 3", "sum F32 [8] (gradients/3)"
  std::int32_t worker = 0;  // its number in the launch, which it keeps while ranks change
  Rank rank{0};
  Step step{0};
  Generation generation{0};
  // Of an operation of the generation's whole group: the same number on every rank is the same
  // operation.
  std::optional<std::uint64_t> number = {};
  std::uint64_t bytes = 0;
  TimePoint begin{};  // of the worker's own clock; in what is reported, of the launcher's
  Duration duration{0};

  TimePoint end() const noexcept { return begin + duration; }
  friend bool operator==(const Span&, const Span&) = default;
};

}  // namespace muster::observe
