#include "muster/cli/started_train.h"

#include <unistd.h>

#include "muster/cluster/environment.h"

namespace muster::cli {

Result<std::optional<cluster::StartedBy>> started_by_launcher(const Context& context) {
  const cluster::VariableLookup variable = [&](const std::string& name) {
    return context.variable(name);
  };
  if (cluster::read_environment(variable))
    return fail(ErrorCode::kUnsupported,
                "[train] muster launch starts programs with a training loop of their own; muster "
                "train starts its workers itself: leave `muster launch` out");
  auto by = cluster::who_started(variable, ::getppid());
  if (!by && by.error().code == ErrorCode::kNotFound) return std::optional<cluster::StartedBy>();
  if (!by) return by.error();
  return std::optional(*std::move(by));
}

Result<std::optional<cluster::StartedBy>> started_with_others(const Context& context) {
  MUSTER_ASSIGN(auto by, started_by_launcher(context));
  if (by && by->ranks == 1) by.reset();
  return by;
}

ExitCode train_with_others(const cluster::StartedBy& by, const GivenToRank& given,
                           const std::function<ExitCode(app::Gathering&)>& train,
                           Context& context) {
  // The terminal, if it is one, is that of all ranks and their launcher, which write there as well.
  context.out_is_terminal = context.err_is_terminal = false;
  const auto worker = worker_program(context);
  if (!worker) return report(context, worker.error());
  const Logger log = context.logger();
  if (by.rank > 0) {
    const std::string program = context.absolute(context.program).string();
    const auto code =
        app::attend_gathering(by, given.job, given.join_timeout, *worker,
                              {program, "worker", "--from-input"}, system_processes(), log);
    return code ? *code : report(context, code.error());
  }
  const auto gathering = app::gather(by, given.job, *worker, system_processes(), log);
  if (!gathering) return report(context, gathering.error());
  const ExitCode code = train(**gathering);
  (*gathering)->conclude(code);
  return code;
}

}  // namespace muster::cli
