#include "muster/cluster/silence.h"

#include <algorithm>

namespace muster::cluster {
namespace {

constexpr std::int32_t kEnough = 20;  // times heard; some seconds of heartbeats
constexpr int kGaps = 5;
constexpr Duration kLeast = std::chrono::seconds(1);
constexpr int kShare = 10;        // of the most: whoever allows more wants to be patient
constexpr double kFading = 0.99;  // a heartbeat

}  // namespace

void Silence::heard(TimePoint now) noexcept {
  if (count_ > 0) {
    const auto faded = std::chrono::duration_cast<Duration>(longest_ * kFading);
    longest_ = std::max(faded, now - last_);
  }
  count_ = std::min(count_ + 1, kEnough);
  last_ = now;
}

Duration Silence::patience(Duration most) const noexcept {
  if (count_ < kEnough) return most;
  return std::min(most, std::max({kLeast, most / kShare, kGaps * longest_}));
}

}  // namespace muster::cluster
