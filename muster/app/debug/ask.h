#pragma once
// Asks a job where its workers are.

#include "muster/app/debug/debug_report.h"
#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/observe/run_folder.h"

namespace muster::app {

// Of a run that goes on: what its workers answer now, asked through its launcher (which must run on
// this host; SIGUSR2). Of one that is over: what was kept when it failed. kNotFound where there is
// neither; kTimeout where the launcher itself does not answer.
Result<DebugReport> ask_where(const observe::RunFolder& folder, Files& files, Clock& clock);

}  // namespace muster::app
