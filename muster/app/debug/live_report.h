#pragma once
// What each worker of a run does now: live.json in the run's folder, which the launcher writes anew
// every second and `muster top` reads. Values.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"
#include "muster/cluster/messages.h"

namespace muster::app {

// What a worker's time goes into, as its heartbeats sample it.
enum class Activity : std::uint8_t {
  kData,     // waits for it
  kCompute,  // forward and backward, also beside communication
  kWait,     // for others, in a collective
  kUpdate,
  kOther,  // evaluates, saves, compares, waits for a generation
};
inline constexpr std::size_t kActivities = 5;
inline constexpr std::array<std::string_view, kActivities> kActivityNames = {
    "data", "compute", "wait", "update", "other"};
Activity activity_of(const cluster::Progress& progress);

struct LiveWorker {
  std::int32_t worker = 0;
  std::int32_t rank = 0;
  std::string host;
  int pid = 0;
  std::int64_t step = 0;
  std::string phase;
  std::string operation;
  std::array<double, kActivities> shares{};  // of its time of late; sum 1, or all 0: nothing heard
  std::uint64_t resident = 0;                // bytes; 0: it is on another host
};

std::string to_json(const std::vector<LiveWorker>& workers);
Result<std::vector<LiveWorker>> live_workers_from_json(std::string_view text);

}  // namespace muster::app
