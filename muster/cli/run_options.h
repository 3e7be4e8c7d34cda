#pragma once
// What commands that train have in common: how many workers, how the run is shown.

#include <string>

#include "muster/app/launch/launch.h"
#include "muster/cli/context.h"
#include "muster/job/load.h"

namespace CLI {
class App;
}

namespace muster::cli {

// --workers under all names that launchers have for it. `workers` must outlive the command's
// action; it is text: the field table checks it like any other value.
void add_workers_option(CLI::App& command, std::string& workers);

// As a flag of the job. Of `auto` one a core, but no more than could be kept at work; nothing of
// "".
void add_workers(const std::string& workers, const Context& context, job::LoadOptions& options);

observe::ConsoleOptions console_options(const job::JobSpec& job, const Context& context);

}  // namespace muster::cli
