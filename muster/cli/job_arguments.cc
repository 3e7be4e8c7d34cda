#include "muster/cli/job_arguments.h"

#include <CLI/CLI.hpp>
#include <ostream>

#include "muster/cluster/environment.h"
#include "muster/cluster/started_by.h"
#include "muster/job/variables.h"

namespace muster::cli {
namespace {

// Of muster's own, which tell a process its place among others or how long it looks for them. Some
// look like a field's, and none is meant for one.
std::map<std::string, std::string> without_own(std::map<std::string, std::string> variables) {
  for (const auto& [name, value] : cluster::to_variables({})) variables.erase(name);
  for (const char* name :
       {cluster::kLaunchVariable, cluster::kJoinTimeoutVariable, cluster::kLocalAddressVariable})
    variables.erase(name);
  return variables;
}

}  // namespace

void add_set_option(CLI::App& command, JobArguments& arguments) {
  command.add_option("--set", arguments.sets, "Another value for one field; may be repeated")
      ->type_name("FIELD=VALUE")
      ->allow_extra_args(false);
}

void add_job_arguments(CLI::App& command, JobArguments& arguments) {
  command.add_option("JOB", arguments.path, "The job file")->required()->type_name("");
  add_set_option(command, arguments);
  command.add_flag("--quick", arguments.quick, "Apply the job file's `quick` values");
}

job::LoadOptions load_options(const JobArguments& arguments, const Context& context) {
  return {.flags = {},
          .sets = arguments.sets,
          .environment = context.environment,
          .quick = arguments.quick,
          .fields = context.fields};
}

void warn_of_stray_variables(Context& context) {
  for (const std::string& line :
       job::stray_variables(without_own(context.environment), *context.fields))
    warn(context, line);
}

Result<job::CheckedJob> check_job_file(const Path& path, const job::LoadOptions& options,
                                       const Context& context) {
  MUSTER_ASSIGN(const std::string text, job::read_job_text(context.files, path));
  return job::check_job(text, path, options);
}

tl::expected<job::Job, ExitCode> job_or_report(Result<job::CheckedJob> checked, Context& context) {
  warn_of_stray_variables(context);
  if (!checked) return tl::unexpected(report(context, checked.error()));
  if (checked->job) return std::move(*checked->job);
  if (context.log == LogFormat::kJson) {
    return tl::unexpected(report(context, fail(ErrorCode::kInvalid, render(checked->errors))));
  }
  context.err << context.fitted_to_err(render(checked->errors)) << "\n";
  return tl::unexpected(ExitCode::kUsage);
}

tl::expected<job::Job, ExitCode> load_job_or_report(const Path& path,
                                                    const job::LoadOptions& options,
                                                    Context& context) {
  return job_or_report(check_job_file(path, options, context), context);
}

}  // namespace muster::cli
