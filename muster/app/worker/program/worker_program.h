#pragma once
// main() of a training process. People start `muster`, or a program of their own, which starts
// these.

#include "muster/app/worker/components.h"

namespace muster::app {

// Whether a launcher has started this process as one of its workers, or asks it about a job: its
// first argument is then none that a person gives.
bool is_worker_call(int argc, char** argv);

// The exit code.
int run_worker_program(int argc, char** argv, const ComponentsPtr& own = no_components());

}  // namespace muster::app
