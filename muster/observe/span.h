#pragma once
// Span: something that took time, for traces.

#include <cstdint>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/ids.h"

namespace muster::observe {

struct Span {
  std::string name;    // "all_reduce", "forward"
  std::string detail;  // what it worked on: "gradients/3"
  Rank rank{0};
  std::int32_t lane = 0;
  TimePoint begin{};  // of the rank's own clock
  Duration duration{0};
  friend bool operator==(const Span&, const Span&) = default;
};

}  // namespace muster::observe
