#pragma once
// communication.engine auto: what carries messages is chosen before the workers are started.

#include "muster/cli/chosen_job.h"

namespace muster::cli {

// mpi where an MPI has started the processes of the job on several hosts, muster has its module,
// this host has a fast fabric that is up, and the job allows mpi; else native.
// `job`: what `request` loads to; the choice becomes a part of `request`. `by`: who has started
// this process and others for the job; null: nobody.
Result<ChosenJob> choose_engine(PlanRequest& request, job::Job job, const cluster::StartedBy* by,
                                Context& context);

}  // namespace muster::cli
