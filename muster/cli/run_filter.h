#pragma once
// Which runs of a list are wanted: by job, by state, by values of the job file.

#include <optional>
#include <string>
#include <vector>

#include "muster/cli/context.h"
#include "muster/observe/run_list.h"

namespace CLI {
class App;
}

namespace muster::cli {

struct RunFilter {
  std::string job;
  std::vector<std::string> states;
  std::vector<std::string> fields;  // "optimizer.type=lamb"
};

// `filter` must outlive the parsing and the action of the command.
void add_filter_options(CLI::App& command, RunFilter& filter);

// kInvalid, with the nearest name, where a field is none.
Status check_filter(const RunFilter& filter, const job::Fields& fields);

// Reads the run's resolved job where fields are asked for; one that cannot be read any more does
// not pass.
bool passes(const RunFilter& filter, const observe::RunInfo& run, Context& context);

}  // namespace muster::cli
