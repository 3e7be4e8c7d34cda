#pragma once
// On which hosts a launcher starts workers, as mpirun and others take it: `localhost:2, node7:4,
// node8`, or a file of lines `node7 slots=4`.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"

namespace muster::job {

struct HostSlots {
  std::string name;        // as ssh knows it: `node7`, `anna@node7`, an address; no brackets
  std::int64_t slots = 1;  // workers there, at most
  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

// As parse_hosts() reads it back: `node7:4`, `[fe80::1]:4`.
std::string to_string(const HostSlots& host);

// This host, with no number: accepted as other launchers have it, and as it is without any hosts;
// how many workers there are is said elsewhere.
bool is_this_host_alone(std::string_view list) noexcept;

// In the order of their first mention; who is named again has more slots. kInvalid: what is wrong,
// not where.
Result<std::vector<HostSlots>> parse_hosts(std::string_view list);

// What such a file says, as a list for parse_hosts(). kInvalid, with the line.
Result<std::string> hosts_of_file(std::string_view text);

std::int64_t slots_of(const std::vector<HostSlots>& hosts) noexcept;

// How a process on each of the first `workers` slots is spread: the host of each, in this order.
std::vector<std::string> first_slots(const std::vector<HostSlots>& hosts, std::int64_t workers);

}  // namespace muster::job
