#pragma once
// Workers that live and yet cannot work together: a link between two of them is cut, or one hangs
// while its heart beats. They tell the coordinator whom they miss; this is the rule by which it
// goes on. A pure state machine; one thread.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "muster/base/clock.h"

namespace muster::cluster {

class Suspicions {
 public:
  // `patience`: how long the usual explanation, a death, is waited for. `calm`: a generation that
  // has lasted so long without one is taken for sound.
  explicit Suspicions(Duration patience = std::chrono::seconds(1),
                      Duration calm = std::chrono::seconds(30));

  // `accuser` cannot work with `accused`; nobody accused: it only fell over others.
  void accuse(std::int32_t accuser, std::optional<std::int32_t> accused, TimePoint now);
  void on_generation(TimePoint now);  // a new one has begun: what was said is of yesterday
  // All may have been stopped for a while, and their operations out of time for nothing else: the
  // same workers may try once more.
  void excuse() noexcept;

  TimePoint due() const noexcept;  // when a ruling is; TimePoint::max(): nobody has complained

  // Whom to go on without; nobody: the same workers try once more, for links heal. The most
  // accused, of equals the last of `members`, who has been there for the shortest time.
  std::optional<std::int32_t> rule(const std::vector<std::int32_t>& members);

 private:
  Duration patience_;
  Duration calm_;
  TimePoint began_{};
  std::optional<TimePoint> first_;
  bool tried_again_ = false;
  std::map<std::int32_t, std::set<std::int32_t>> accusers_;  // by accused
};

}  // namespace muster::cluster
