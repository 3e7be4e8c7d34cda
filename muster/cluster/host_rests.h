#pragma once
// Other hosts on which workers that are wanted besides do not come up: each is left alone for a
// while, twice as long each time, and then tried with one worker. One thread.

#include <map>
#include <optional>
#include <string>

#include "muster/base/clock.h"

namespace muster::cluster {

class HostRests {
 public:
  explicit HostRests(Duration first) : first_(first) {}

  // A worker there has come to nothing. For how long the host is left alone from now on; none: it
  // is so already.
  std::optional<Duration> fail(const std::string& host, TimePoint now);
  void come_up(const std::string& host) { rests_.erase(host); }
  bool is_left_alone(const std::string& host, TimePoint now) const;
  // Nobody has come up there since it failed.
  bool is_doubtful(const std::string& host) const { return rests_.contains(host); }

 private:
  struct Rest {
    Duration length{};
    TimePoint until;
  };
  const Duration first_;
  std::map<std::string, Rest> rests_;
};

}  // namespace muster::cluster
