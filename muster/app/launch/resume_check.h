#pragma once
// Whether a run may go on under the job as it is given now. What decides the order of the data or
// the shape of the state must not change within a run: the promises of same bits and of every
// sample exactly once would be gone without a word.

#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/job/load.h"
#include "muster/observe/run_folder.h"

namespace muster::app {

// kInvalid, naming each field with its old and new value, where they differ in what must stay.
// Other differences are returned as lines for a person: they take effect from here on.
Result<std::vector<std::string>> check_resumable(Files& files, const observe::RunFolder& folder,
                                                 const job::Job& job);

// kNotFound where nothing was saved in it. Before workers start, for what they tell as they fail
// would be the end that the run's record has. Workers elsewhere may have checkpoints that are not
// seen here.
Status check_saved(Files& files, const observe::RunFolder& folder, const job::WorkersSpec& workers);

// Whether one of its checkpoints is whole to the last byte; reads them until one is.
bool has_whole_checkpoint(Files& files, const observe::RunFolder& folder);

}  // namespace muster::app
