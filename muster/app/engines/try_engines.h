#pragma once
// Whether the engines of communication work on this machine, found out by using them.

#include <string>
#include <vector>

#include "muster/base/result.h"

namespace muster::app {

struct EngineTrial {
  std::string name;  // "shared memory"
  Status outcome;
};

// Two ranks of each engine, on this host alone, threads of this process, sum some numbers.
// Takes milliseconds; where an engine hangs, some seconds. Leaves nothing behind.
std::vector<EngineTrial> try_engines();

}  // namespace muster::app
