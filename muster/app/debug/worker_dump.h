#pragma once
// What one worker says of itself when it is asked where it is, or when the job fails. A value; how
// it travels from the worker to its launcher and into the run's folder.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"
#include "muster/comm/wrap/flight_analysis.h"
#include "muster/comm/wrap/flight_recorder.h"

namespace muster::app {

struct WorkerDump {
  comm::FlightRecord record;
  std::string stacks;  // of all threads; empty: not asked for
};

// Of the newest generation among `entries`, as `rank` of `size` sees it at `now`; what began after
// it has just begun.
comm::FlightRecord flight_record(Rank rank, std::int32_t size,
                                 const std::vector<comm::FlightEntry>& entries,
                                 const std::vector<comm::RunningPass>& passes, TimePoint now);

std::string encode(const WorkerDump& dump);
Result<WorkerDump> decode_dump(std::string_view text);  // kCorrupt for what encode() did not write

}  // namespace muster::app
