#include "muster/cluster/host_clocks.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/units.h"

namespace muster::cluster {
namespace {

using Seconds = std::chrono::seconds;

constexpr Seconds kTolerated{60};
constexpr Seconds kLongestTold = std::chrono::hours(24 * 365 * 200);  // that a Duration can hold

}  // namespace

std::optional<std::string> HostClocks::note(const std::string& host, const WallReading& told,
                                            WallTime now) {
  // In whole seconds, since the difference of any two times does not fit into a Duration.
  const Seconds ahead = std::chrono::floor<Seconds>(told.at.time_since_epoch()) -
                        std::chrono::floor<Seconds>(now.time_since_epoch());
  const Seconds trip = std::chrono::ceil<Seconds>(std::max(told.on_the_way, Duration{0}));
  // It was sent between `now` and so much earlier.
  const bool may_be_near = ahead <= kTolerated && ahead + trip >= -kTolerated;
  if (may_be_near || !warned_of_.insert(host).second) return std::nullopt;
  return fmt::format(
      "[cluster/clocks] the clock of {} is {} {} this host's: times in logs and names "
      "of runs do not fit together; have both set by NTP (`muster doctor` on each says whether it "
      "is)",
      host, format_duration(std::min(std::chrono::abs(ahead), kLongestTold)),
      ahead > Seconds{0} ? "ahead of" : "behind");
}

}  // namespace muster::cluster
