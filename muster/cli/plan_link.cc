#include "muster/cli/plan_link.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/app/launch/hosts.h"
#include "muster/base/units.h"
#include "muster/cli/machine.h"
#include "muster/cli/plan_job.h"
#include "muster/plan/timeline.h"

namespace muster::cli {
namespace {

// Where it is neither said nor measured: inside a host, and between hosts on 10 Gbit/s Ethernet.
// Both as one worker sees it, with TLS on the second.
const layout::LinkCost kUsualMemory{std::chrono::microseconds(20), 4e9};
const layout::LinkCost kUsualNetwork{std::chrono::microseconds(100), 1e9};

bool may_leave_host(const PlanRequest& request, const job::JobSpec& job, const Context& context) {
  const auto& hosts = job.workers.hosts;
  const auto places = app::place_workers(hosts, job::slots_of(hosts), context.machine.host());
  return !places.elsewhere.empty() || request.other_hosts || !job.workers.listen.empty();
}

// From sending a message to having it: each end has its part of the work.
layout::LinkCost cost_of(const comm::MeasuredLink& link) {
  return {.latency = std::chrono::round<Duration>(
              std::chrono::duration<double>(comm::one_way(link.costs, link.per_message))),
          .bytes_per_second = 1 / link.costs.per_byte};
}

// What the command line does not say.
void measure_rest(const PlanRequest& request, PlannedLink& link, Context& context) {
  const auto found = context.machine.measure_link(link.wire);
  if (!found) {
    link.from.failure = found.error().message;
    warn(context, fmt::format("the link between two workers could not be measured, so what is "
                              "usual is assumed; --latency and --bandwidth say it: {}",
                              link.from.failure));
    return;
  }
  const layout::LinkCost measured = cost_of(*found);
  if (!request.latency) {
    link.cost.latency = measured.latency;
    link.from.latency = LinkOrigin::kMeasured;
  }
  if (!request.bytes_per_second) {
    link.cost.bytes_per_second = measured.bytes_per_second;
    link.from.bandwidth = LinkOrigin::kMeasured;
  }
}

}  // namespace

std::string_view to_string(LinkOrigin origin) noexcept {
  switch (origin) {
    case LinkOrigin::kAssumed:
      return "assumed";
    case LinkOrigin::kMeasured:
      return "measured";
    case LinkOrigin::kGiven:
      return "given";
  }
  return "?";
}

PlannedLink link_for(const PlanRequest& request, const job::JobSpec& job, Context& context) {
  const bool leaves_host = may_leave_host(request, job, context);
  const bool network = leaves_host || job.communication.transport == job::TransportKind::kTcp;
  PlannedLink link{.wire = network ? comm::Wire::kTcp : comm::Wire::kMemory};
  link.cost = network ? kUsualNetwork : kUsualMemory;
  if (request.latency) {
    link.cost.latency = *request.latency;
    link.from.latency = LinkOrigin::kGiven;
  }
  if (request.bytes_per_second) {
    link.cost.bytes_per_second = *request.bytes_per_second;
    link.from.bandwidth = LinkOrigin::kGiven;
  }
  const bool is_here = job.communication.engine == job::EngineKind::kNative && !leaves_host;
  if (is_here && link.from.is_assumed()) measure_rest(request, link, context);
  return link;
}

std::string link_text(const layout::LinkCost& cost, const LinkOrigins& from) {
  const std::string latency = plan::time_text(cost.latency);
  const std::string rate =
      format_bytes(static_cast<std::uint64_t>(std::min(cost.bytes_per_second, 1e18)));
  if (from.latency == from.bandwidth)
    return fmt::format("{} a message, {}/s ({})", latency, rate, to_string(from.latency));
  return fmt::format("{} a message ({}), {}/s ({})", latency, to_string(from.latency), rate,
                     to_string(from.bandwidth));
}

}  // namespace muster::cli
