#pragma once
// Where `muster launch` starts its processes: on this host alone, or as one of several hosts.

#include <cstdint>
#include <map>
#include <string>

#include "muster/base/result.h"
#include "muster/cli/launch_flags.h"
#include "muster/net/network.h"

namespace muster::cli {

struct LaunchPlace {
  std::int32_t per_node = 1;
  std::int32_t nodes = 1;
  std::int32_t node_rank = 0;
  net::Address meeting;    // of several hosts: where rank 0 can be met
  std::string local_host;  // and where others reach this one; empty: found out
  std::string id;          // sets the start apart from others that meet there
  std::int32_t max_restarts = 0;

  std::int32_t ranks() const noexcept { return per_node * nodes; }
  std::int32_t first_rank() const noexcept { return per_node * node_rank; }
};

// `cores` of this host: as many processes as `auto` means. kInvalid names the flag or variable.
Result<LaunchPlace> launch_place(const LaunchFlags& flags,
                                 const std::map<std::string, std::string>& environment,
                                 std::int32_t cores);

}  // namespace muster::cli
