#include "muster/cli/auto_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/app/engines/fabric.h"
#include "muster/cli/machine.h"
#include "muster/job/enum_names.h"

namespace muster::cli {
namespace {

using job::EngineKind;

struct EngineChoice {
  EngineKind engine = EngineKind::kNative;
  std::string why;
};

job::FlagValue engine_flag(EngineKind engine) {
  return {.flag = "communication.engine: auto",  // of the value, in resolved.yaml
          .field = "communication.engine",
          .value = std::string(job::to_string(engine))};
}

job::CheckedJob with_engine(const PlanRequest& request, const job::Job& job, EngineKind engine) {
  job::LoadOptions options = request.options;
  options.flags.push_back(engine_flag(engine));
  return check_job(job.text, request.job, options);
}

// What speaks for MPI, or against it, before the job is asked.
EngineChoice engine_of_place(const job::JobSpec& job, const cluster::StartedBy* by,
                             Context& context) {
  const auto native = [](std::string why) {
    return EngineChoice{EngineKind::kNative, std::move(why)};
  };
  const auto module = mpi_module(context);
  if (by == nullptr || !by->speaks_mpi || !module)
    return native("no MPI has started processes for this job");
  if (by->shares_host)
    return native(
        fmt::format("all {} processes that {} has started are on one host, and share "
                    "memory",
                    by->ranks, by->launcher));
  if (job.workers.processes() != by->ranks)
    return native(fmt::format("MPI needs all {} processes that {} has started, and {} have workers",
                              by->ranks, by->launcher, job.workers.processes()));
  if (!context.files.exists(*module))
    return native(
        fmt::format("{} has started {} processes, and {}, muster's module for its MPI, "
                    "is not there",
                    by->launcher, by->ranks, module->string()));
  const auto ports = app::fabric_ports(context.files);
  const auto up = std::ranges::find_if(ports, &app::FabricPort::is_active);
  const std::string host = context.machine.host();
  if (up == ports.end()) return native(fmt::format("no fast fabric is up on {}", host));
  return {EngineKind::kMpi, fmt::format("{} has started {} processes, and {} has {}", by->launcher,
                                        by->ranks, host, describe(*up))};
}

}  // namespace

Result<ChosenJob> choose_engine(PlanRequest& request, job::Job job, const cluster::StartedBy* by,
                                Context& context) {
  if (job.spec.communication.engine != EngineKind::kAuto) return ChosenJob{std::move(job), {}};
  EngineChoice choice = engine_of_place(job.spec, by, context);
  auto checked = with_engine(request, job, choice.engine);
  if (!checked.job && choice.engine == EngineKind::kMpi) {
    choice = {EngineKind::kNative, checked.errors.front().message};
    checked = with_engine(request, job, choice.engine);
  }
  if (!checked.job) return fail(ErrorCode::kInternal, render(checked.errors));
  request.options.flags.push_back(engine_flag(choice.engine));
  return ChosenJob{std::move(*checked.job),
                   {fmt::format("communication.engine auto: {}; {}", job::to_string(choice.engine),
                                choice.why)}};
}

}  // namespace muster::cli
