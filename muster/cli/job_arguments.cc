#include "muster/cli/job_arguments.h"

#include <CLI/CLI.hpp>

namespace muster::cli {

void add_job_arguments(CLI::App& command, JobArguments& arguments) {
  command.add_option("JOB", arguments.path, "The job file")->required()->type_name("");
  command.add_option("--set", arguments.sets, "Another value for one field; may be repeated")
      ->type_name("FIELD=VALUE")
      ->allow_extra_args(false);
  command.add_flag("--quick", arguments.quick, "Apply the job file's `quick` values");
}

job::LoadOptions load_options(const JobArguments& arguments, const Context& context) {
  return {{}, arguments.sets, context.environment, arguments.quick};
}

}  // namespace muster::cli
