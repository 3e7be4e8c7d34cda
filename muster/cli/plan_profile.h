#pragma once
// What a worker measured of a job's model, kept in a file: another plan of the same model, with
// other workers or limits or on another machine, begins at once and from the same numbers.

#include "muster/base/files.h"
#include "muster/cli/plan_job.h"

namespace muster::cli {

// JSON: what was measured, and the job's fields that it depends on.
Status write_profile(Files& files, const Path& path, const job::Job& job,
                     const plan::ModelProfile& profile);

// kInvalid, with what to do: no such file's text, of another model, or without the passes that
// `job` needs (micro_batches_of). Where the samples lie does not matter.
Result<plan::ModelProfile> read_profile(Files& files, const Path& path, const job::Job& job);

}  // namespace muster::cli
