#pragma once
// What commands that train have in common: how many workers, how the run is shown.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/app/launch/launch.h"
#include "muster/cli/context.h"
#include "muster/job/load.h"

namespace CLI {
class App;
}

namespace muster::cli {

// A check of options whose word may be empty by mistake, as that of a variable which a script has
// not set. `what` lives as long as the option.
std::function<std::string(const std::string&)> expects(std::string_view what);

// --workers under all names that launchers have for it. `workers` must outlive the command's
// action; it is text: the field table checks it like any other value.
void add_workers_option(CLI::App& command, std::string& workers);

bool depends_on_cores(const std::string& workers);  // it is `auto`, as --workers may be

// As a flag of the job. Of `auto` one a core, but no more than could be kept at work; nothing of
// "".
void add_workers(const std::string& workers, const Context& context, job::LoadOptions& options);

// --hosts, --hostfile and -x of a job on several hosts.
struct HostArguments {
  std::string hosts;
  std::string file;
  std::vector<std::string> exports;  // "NAME" or "NAME=VALUE"
};
void add_hosts_options(CLI::App& command, HostArguments& arguments);

// As a flag of the job. Fails where the file cannot be read, or is none of hosts.
Status add_hosts(const HostArguments& arguments, const Context& context, job::LoadOptions& options);

// As a flag of the job: as many workers as there is room for, its standbys among them. `said`: the
// flag's value, as a person may read it.
void add_workers_for(std::int64_t room, std::string flag, std::string said,
                     job::LoadOptions& options);

// What workers of other hosts get of this program and its folder,
app::CarriedAlong carried_along(const Context& context);
// and of its variables. kInvalid: one that is not set.
Result<app::CarriedAlong> carried_along(const std::vector<std::string>& exports,
                                        const Context& context);

observe::ConsoleOptions console_options(const job::JobSpec& job, const Context& context);

}  // namespace muster::cli
