#include "muster/cluster/clock_offset.h"

#include <algorithm>

namespace muster::cluster {

void ClockOffset::note(TimePoint asked, TimePoint told, TimePoint answered) {
  if (answered < asked) return;
  const Duration took = answered - asked;
  last_.push_back({took, told - (asked + took / 2)});
  if (last_.size() > kKept) last_.pop_front();
}

std::optional<Duration> ClockOffset::value() const {
  const auto quickest = std::ranges::min_element(last_, {}, &Exchange::took);
  if (quickest == last_.end()) return std::nullopt;
  const bool may_be_the_same = std::chrono::abs(quickest->offset) <= quickest->took / 2;
  return may_be_the_same ? Duration{0} : quickest->offset;
}

}  // namespace muster::cluster
