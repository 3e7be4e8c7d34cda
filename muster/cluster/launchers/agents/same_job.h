#pragma once
// Whether an agent would train what rank 0 does, with the same muster. Pure.

#include <string>

#include "muster/cluster/messages.h"

namespace muster::cluster {

std::string who(const Attend& agent);  // "1 on node7 (pid 12)", behind "rank "

// For a person: what `agent` has otherwise than `first`, rank 0, with both hosts and both files;
// empty: nothing. Of a job that rank 0 cannot read, or not twice, nothing is compared.
std::string what_differs(const Attend& first, const Attend& agent);

}  // namespace muster::cluster
