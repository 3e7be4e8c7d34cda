#include "muster/cli/run_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "muster/app/version/version.h"
#include "muster/cli/machine.h"
#include "muster/job/host_list.h"

namespace muster::cli {
namespace {

Result<std::string> list_in(const std::string& file, const Context& context) {
  MUSTER_ASSIGN(const std::string text, context.files.read(file));
  auto list = job::hosts_of_file(text);
  if (!list) return with_context(list.error(), fmt::format("[train] --hostfile {}", file));
  return list;
}

}  // namespace

std::function<std::string(const std::string&)> expects(std::string_view what) {
  return [what](const std::string& word) {
    return word.empty() ? fmt::format("expected {}", what) : std::string();
  };
}

void add_workers_option(CLI::App& command, std::string& workers) {
  command
      .add_option("--workers,-w,-n,--np,--nproc-per-node,--nproc_per_node", workers,
                  "Training processes on this machine; auto: one a core, at most one a slice")
      ->type_name("N")
      ->check(expects("a number of processes, or auto"));
}

bool depends_on_cores(const std::string& workers) { return workers == "auto" || workers == "cpu"; }

void add_workers(const std::string& workers, const Context& context, job::LoadOptions& options) {
  if (workers.empty()) return;
  job::FlagValue flag{"--workers", "workers.count", workers, {}};
  if (depends_on_cores(workers)) {
    flag.meaning = [cores = static_cast<std::int64_t>(context.machine.cores())](const auto& job) {
      return std::to_string(std::clamp<std::int64_t>(cores, 1, job.training.virtual_workers));
    };
  }
  options.flags.push_back(std::move(flag));
}

void add_hosts_options(CLI::App& command, HostArguments& arguments) {
  const std::string group = "On several hosts";
  auto* list = command
                   .add_option("-H,--hosts,--host", arguments.hosts,
                               "Hosts to start workers on by ssh, each with how many; this one is "
                               "localhost: localhost:2,node7:4")
                   ->type_name("HOSTS")
                   ->check(expects("hosts, as in localhost:2,node7:4"))
                   ->group(group);
  command.add_option("--hostfile", arguments.file, "The same in a file of lines `node7 slots=4`")
      ->type_name("FILE")
      ->check(expects("a file of lines such as `node7 slots=4`"))
      ->excludes(list)
      ->group(group);
  command
      .add_option("-x,--export", arguments.exports,
                  "A variable for all workers, with its value here or this one")
      ->type_name("NAME[=VALUE]")
      ->allow_extra_args(false)
      ->group(group);
}

Status add_hosts(const HostArguments& arguments, const Context& context,
                 job::LoadOptions& options) {
  job::FlagValue flag{.flag = "--hosts", .field = "workers.hosts", .value = {}, .is_text = true};
  if (!arguments.file.empty()) {
    MUSTER_ASSIGN(std::string list, list_in(arguments.file, context));
    flag.flag = "--hostfile";
    flag.value = arguments.file;
    flag.meaning = [list = std::move(list)](const job::JobSpec&) { return list; };
  } else if (!arguments.hosts.empty()) {
    flag.value = arguments.hosts;
  } else {
    return ok();
  }
  options.flags.push_back(std::move(flag));
  return ok();
}

void add_workers_for(std::int64_t room, std::string flag, std::string said,
                     job::LoadOptions& options) {
  options.flags.push_back(
      {std::move(flag), "workers.count", std::move(said), [room](const job::JobSpec& job) {
         return std::to_string(std::max<std::int64_t>(1, room - job.workers.standbys));
       }});
}

app::CarriedAlong carried_along(const Context& context) {
  return {.program = context.absolute(context.program).lexically_normal(),
          .version = app::version_and_commit(),
          .folder = context.machine.folder(),
          .environment = {}};
}

Result<app::CarriedAlong> carried_along(const std::vector<std::string>& exports,
                                        const Context& context) {
  app::CarriedAlong carried = carried_along(context);
  for (const std::string& word : exports) {
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto here = context.environment.find(name);
    if (name.empty() || (equals == word.npos && here == context.environment.end()))
      return fail(ErrorCode::kInvalid,
                  fmt::format("[train] -x {}: there is no such variable here; set it, or say its "
                              "value as in -x NAME=VALUE",
                              word));
    carried.environment[name] = equals == word.npos ? here->second : word.substr(equals + 1);
  }
  return carried;
}

observe::ConsoleOptions console_options(const job::JobSpec& job, const Context& context) {
  observe::ConsoleOptions console = observe::choose_console(
      context.out_is_terminal,
      [&](std::string_view name) { return context.variable(std::string(name)); });
  const bool json = context.log == LogFormat::kJson || job.logging.format == job::LogStyle::kJson;
  if (json) console.format = observe::ConsoleFormat::kJson;
  console.logging_steps = job.logging.logging_steps;
  return console;
}

}  // namespace muster::cli
