#pragma once
// muster train in one of several processes that another launcher has started.

#include <functional>
#include <optional>

#include "muster/app/gather/gather.h"
#include "muster/cli/context.h"
#include "muster/cluster/started_by.h"

namespace muster::cli {

// The launcher that has started this process, alone or with others; nothing: a person or a script
// has. kInvalid: variables that contradict each other; kUnsupported: muster launch has started it,
// which is for programs with a loop of their own.
Result<std::optional<cluster::StartedBy>> started_by_launcher(const Context& context);

// The same; nothing as well where it is the only process.
Result<std::optional<cluster::StartedBy>> started_with_others(const Context& context);

// What this process was given to train, which has to be what rank 0 was.
struct GivenToRank {
  cluster::GivenJob job = {};
  std::optional<Duration> join_timeout = {};  // the job's, where it can be read here
};

// Blocks until the job is over. Rank 0 trains, with the others' help; all end with its exit code.
ExitCode train_with_others(const cluster::StartedBy& by, const GivenToRank& given,
                           const std::function<ExitCode(app::Gathering&)>& train, Context& context);

}  // namespace muster::cli
