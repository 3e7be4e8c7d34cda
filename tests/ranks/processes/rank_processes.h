#pragma once
// Ranks as real processes: forks the caller, so it must have no threads yet. For tests and
// benchmarks of what only processes can show: death, freezing, separate address spaces.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "muster/comm/engine/engine.h"

namespace muster::comm {

// What one forked rank runs; `exchange` connects it to the others, as often as they meet. The
// result is its exit status.
using RankBody = std::function<int(Group group, const Exchange& exchange)>;

class RankProcesses {
 public:
  RankProcesses(std::int32_t size, const RankBody& body);
  ~RankProcesses();  // kills and reaps what still runs
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  pid_t pid(std::int32_t rank) const { return pids_.at(static_cast<std::size_t>(rank)); }
  void signal(std::int32_t rank, int number);
  // Waits for its end: exit status, or 128 + the signal that killed it.
  int wait(std::int32_t rank);

 private:
  std::vector<pid_t> pids_;  // -1: reaped
};

}  // namespace muster::comm
