#include "muster/app/engines/measure_link.h"

#include <fmt/format.h>

#include <exception>

#include "muster/app/engines/two_ranks.h"
#include "muster/comm/engine/measure_costs.h"

namespace muster::app {
namespace {

constexpr std::chrono::seconds kLongest{2};  // for what takes milliseconds where nothing hangs

// Two ranks that do not share memory count as two hosts where they are told apart.
comm::MeasuredLink only_link_of(const comm::CostTable& costs) {
  return {.costs = costs.between.latency > 0 ? costs.between : costs.inside,
          .per_message = costs.per_message};
}

Result<comm::MeasuredLink> measure_tcp() {
  comm::CostBook book;
  MUSTER_ASSIGN(const auto pair, TwoRanks::connect(comm::NativeTransport::kTcp, kLongest, &book));
  return only_link_of(*book.table);  // they have measured it as they met
}

Result<comm::MeasuredLink> measure_memory() {
  comm::CostBook book;
  MUSTER_ASSIGN(const auto pair, TwoRanks::connect(comm::NativeTransport::kSharedMemory, kLongest));
  comm::measure_machine(system_clock(), book);
  comm::MeasuredLink link;
  MUSTER_TRY(on_each(pair->ranks(), [&](comm::Communicator& world) -> Status {
    if (world.group().rank != Rank{0})
      return comm::answer_messages(world, Rank{0}, system_clock(), kLongest);
    MUSTER_ASSIGN(
        link, comm::time_messages(world, Rank{1}, system_clock(), kLongest, book.copy_per_byte));
    return ok();
  }));
  return link;
}

}  // namespace

Result<comm::MeasuredLink> measure_link(comm::Wire wire) {
  try {
    return wire == comm::Wire::kTcp ? measure_tcp() : measure_memory();
  } catch (const std::exception& lack) {  // of a thread, of memory
    return fail(ErrorCode::kUnavailable,
                fmt::format("[app/engines] two ranks could not be started to time the link between "
                            "them: {}; see `ulimit -u` and the free memory",
                            lack.what()));
  }
}

}  // namespace muster::app
