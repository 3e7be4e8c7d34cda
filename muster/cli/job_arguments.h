#pragma once
// What every command that takes a job file has in common: JOB, --set, --quick.

#include <string>
#include <vector>

#include "muster/cli/context.h"
#include "muster/job/load.h"

namespace CLI {
class App;
}

namespace muster::cli {

struct JobArguments {
  std::string path;
  std::vector<std::string> sets;
  bool quick = false;
};

// `arguments` must outlive the parsing and the action of the command.
void add_job_arguments(CLI::App& command, JobArguments& arguments);

void add_set_option(CLI::App& command, JobArguments& arguments);  // its part of them

// With the process's environment; a command adds its own flags.
job::LoadOptions load_options(const JobArguments& arguments, const Context& context);

// Says on stderr which variables look as if they were meant for the job and set nothing.
void warn_of_stray_variables(Context& context);

// The job file, read and checked. An Error: it cannot be read.
Result<job::CheckedJob> check_job_file(const Path& path, const job::LoadOptions& options,
                                       const Context& context);

// The job; or its errors have been told on stderr and the command ends with this code.
tl::expected<job::Job, ExitCode> job_or_report(Result<job::CheckedJob> checked, Context& context);

// Both.
tl::expected<job::Job, ExitCode> load_job_or_report(const Path& path,
                                                    const job::LoadOptions& options,
                                                    Context& context);

}  // namespace muster::cli
