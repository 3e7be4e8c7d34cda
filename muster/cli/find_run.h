#pragma once
// What commands about a run have in common: RUN as a path, an id, the name of a job, or `latest`.

#include <string>
#include <string_view>

#include "muster/cli/context.h"
#include "muster/observe/run_folder.h"

namespace CLI {
class App;
}

namespace muster::cli {

struct RunArguments {
  std::string run;   // RUN
  std::string runs;  // --run-folder
};

// `arguments` must outlive the parsing and the action of the command.
void add_run_arguments(CLI::App& command, RunArguments& arguments);
void add_run_folder_option(CLI::App& command, std::string& runs);

// Where runs are looked for: --run-folder, MUSTER_RUN_FOLDER, or the default of the job file.
Path runs_folder(const std::string& option, const Context& context);

// A path to a run, or to a job's folder with its `latest`; an id, or a folder's name; the name of a
// job, of which the newest; `latest`, the newest of all. The root says where it really is, not
// `latest`. kNotFound, with the nearest one that there is.
constexpr std::string_view kLatestRun = "latest";
Result<observe::RunFolder> find_run(const RunArguments& arguments, Context& context);

}  // namespace muster::cli
