#pragma once
// What the links of a group cost, measured over its own transport before its first collective, so
// that schedules are chosen by what is there. A rank of each host times the link to the next host
// in a ring, two ranks of a host the way between them; the dearest of each counts for all, as a
// collective is done when its slowest link is. Takes some milliseconds; on slow links some ten
// round trips, three times where hosts are an odd number.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/comm/engine/time_link.h"
#include "muster/comm/engine/transport.h"

namespace muster::comm {

// What one process has measured, kept from one generation to the next. Not thread-safe.
struct CostBook {
  std::optional<CostTable> table;             // what the ranks of a group agreed on last
  std::map<std::string, MeasuredLink> links;  // from this host, by the name of the other one
  double reduce_per_byte = 0;                 // of this machine; 0: not measured yet
  double copy_per_byte = 0;
};

std::string to_text(const CostTable& costs);  // exact, without spaces
std::optional<CostTable> cost_table_from(std::string_view text);
// "41.0 µs and 1.2 GiB/s between hosts, …": one_way() and the rate of the links that were measured.
std::string describe(const CostTable& costs);

// What `book` does not know yet of this machine. Some hundred microseconds.
void measure_machine(Clock& clock, CostBook& book);

struct MeasureOptions {
  const Group& group;
  const std::vector<std::string>& hosts;  // the name of each rank's
  std::function<bool()> cancelled = {};   // asked while it waits; may be empty
};

// This rank's part: what it measured with others, and what its machine does. What `book` has is not
// measured again; what it has not is noted there. Collective; ranks whose links are known take
// part. Errors name the rank that took no part.
Result<CostTable> measure_own_costs(Transport& transport, const MeasureOptions& options,
                                    CostBook& book, Deadline deadline);

// Whether it knows every kind of link there is.
bool covers(const CostTable& costs, const Topology& topology) noexcept;

// The dearest of each.
CostTable dearest(const std::vector<CostTable>& costs);

}  // namespace muster::comm
