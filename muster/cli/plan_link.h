#pragma once
// The way between two workers of a job, as a plan takes it: as the command line says, else as it
// is measured on this machine, else assumed, and which of these.

#include <string>
#include <string_view>

#include "muster/cli/context.h"
#include "muster/comm/cost.h"
#include "muster/job/spec.h"
#include "muster/layout/pipeline/times.h"

namespace muster::cli {

struct PlanRequest;

enum class LinkOrigin : std::uint8_t { kAssumed, kMeasured, kGiven };
std::string_view to_string(LinkOrigin origin) noexcept;  // "measured"

struct LinkOrigins {
  LinkOrigin latency = LinkOrigin::kAssumed;
  LinkOrigin bandwidth = LinkOrigin::kAssumed;
  std::string failure = {};  // why it is assumed though it could be measured here; else empty

  bool is_assumed() const noexcept {
    return latency == LinkOrigin::kAssumed || bandwidth == LinkOrigin::kAssumed;
  }
};

struct PlannedLink {
  layout::LinkCost cost = {};
  comm::Wire wire = comm::Wire::kMemory;
  LinkOrigins from = {};
};

// Measures where all workers are on this host and use engine `native`, in some tens of
// milliseconds; a measurement that fails is told as a warning, and the usual is assumed.
PlannedLink link_for(const PlanRequest& request, const job::JobSpec& job, Context& context);

// "20 µs a message, 3.7 GiB/s (measured)"
std::string link_text(const layout::LinkCost& cost, const LinkOrigins& from);

}  // namespace muster::cli
