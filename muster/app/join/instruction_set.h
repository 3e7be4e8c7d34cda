#pragma once
// What makes a worker's kernels use the instruction set that its job asks for (training.isa).

#include <map>
#include <string>

#include "muster/base/result.h"
#include "muster/job/spec.h"

namespace muster::app {

// Variables that libtorch and oneDNN read as they are loaded, so that a worker has to be started
// with them; none for `auto`.
std::map<std::string, std::string> instruction_set_variables(job::Isa isa);

// Whether this machine's processor has it. kUnavailable: a worker would die of it (SIGILL), and
// say nothing.
Status check_instruction_set(job::Isa isa);

}  // namespace muster::app
