#include "muster/cluster/host_rests.h"

#include <algorithm>

namespace muster::cluster {
namespace {

constexpr Duration kLongest = std::chrono::hours(1);

}  // namespace

std::optional<Duration> HostRests::fail(const std::string& host, TimePoint now) {
  if (is_left_alone(host, now)) return std::nullopt;
  Rest& rest = rests_[host];
  const Duration longest = std::max(first_, kLongest);
  rest.length = rest.length > Duration{0} ? std::min(2 * rest.length, longest) : first_;
  rest.until = now + rest.length;
  return rest.length;
}

bool HostRests::is_left_alone(const std::string& host, TimePoint now) const {
  const auto found = rests_.find(host);
  return found != rests_.end() && now < found->second.until;
}

}  // namespace muster::cluster
