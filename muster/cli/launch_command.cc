#include "muster/cli/launch_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <ostream>

#include "muster/base/process.h"
#include "muster/cli/application.h"
#include "muster/cli/launch_output.h"
#include "muster/cli/launch_place.h"
#include "muster/cli/run_ranks.h"
#include "muster/cluster/launcher.h"
#include "muster/cluster/process_group.h"
#include "muster/cluster/started_by.h"

namespace muster::cli {
namespace {

struct Launch {
  LaunchPlace place;
  LaunchOutput output;
  std::vector<std::string> command;
  std::int32_t attempt = 0;  // from 0 on
};

// What all processes have besides their ranks.
std::map<std::string, std::string> variables_of_all(const Launch& launch, const Context& context) {
  std::map<std::string, std::string> variables{
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(launch.attempt)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(launch.place.max_restarts)}};
  if (!launch.output.role.empty()) variables["ROLE_NAME"] = launch.output.role;
  if (context.environment.contains("OMP_NUM_THREADS")) return variables;
  // Otherwise each process of libtorch computes on all cores.
  const auto cores = static_cast<std::int32_t>(cluster::available_cores().size());
  variables["OMP_NUM_THREADS"] = std::to_string(std::max(1, cores / launch.place.per_node));
  return variables;
}

RankView view_of(const LaunchOutput& output) {
  RankView view{.name = "rank", .shows = [output](std::int32_t local, bool is_error) {
                  return output.shows(local, is_error);
                }};
  if (!output.role.empty()) view.name = output.role;
  return view;
}

Result<RanksEnd> run_here(const Launch& launch, Context& context) {
  return run_ranks({.command = launch.command,
                    .ranks = launch.place.per_node,
                    .environment = variables_of_all(launch, context),
                    .view = view_of(launch.output),
                    .log_folder = launch.output.log_folder},
                   context);
}

ProcessSpec process_of(const Launch& launch, std::int32_t local, const Context& context) {
  const LaunchPlace& place = launch.place;
  ProcessSpec process{.command = launch.command,
                      .environment = variables_of_all(launch, context),
                      .folder = {},
                      .cores = {}};
  const auto set = [&](const char* name, const std::string& value) {
    process.environment[name] = value;
  };
  set("RANK", std::to_string(place.first_rank() + local));
  set("WORLD_SIZE", std::to_string(place.ranks()));
  set("LOCAL_RANK", std::to_string(local));
  set("LOCAL_WORLD_SIZE", std::to_string(place.per_node));
  set("GROUP_RANK", std::to_string(place.node_rank));
  set("MASTER_ADDR", place.meeting.host);
  set("MASTER_PORT", std::to_string(place.meeting.port));
  set(cluster::kLaunchVariable, place.id.empty() ? "launch" : place.id);
  if (!place.local_host.empty()) set(cluster::kLocalAddressVariable, place.local_host);
  return process;
}

Status failure_of(const cluster::ProcessGroupEnd& end, std::int32_t first_rank) {
  if (!end.failed) return ok();
  const auto& failed = end.members[*end.failed];
  std::string told = fmt::format("[launch] rank {} (pid {}) {}",
                                 first_rank + static_cast<std::int32_t>(*end.failed), failed.pid,
                                 describe(failed.end));
  if (!failed.last_lines.empty()) told += "\n  its last lines:";
  for (const std::string& line : failed.last_lines) told += "\n    " + line;
  if (!failed.log.empty()) told += "\n  its log: " + failed.log;
  return fail(ErrorCode::kPeerLost, std::move(told));
}

constexpr Duration kGraceOfSignal = std::chrono::seconds(30);  // torchrun's

// Its part of several hosts' processes, whose first keeps the coordinator.
Result<RanksEnd> run_part(const Launch& launch, Context& context) {
  cluster::ProcessGroupSpec spec;
  spec.grace_of_signal = kGraceOfSignal;
  for (std::int32_t local = 0; local < launch.place.per_node; ++local)
    spec.processes.push_back(process_of(launch, local, context));
  const std::int32_t first = launch.place.first_rank();
  if (!launch.output.log_folder.empty())
    spec.logs = {.files = &context.files, .folder = launch.output.log_folder, .first = first};
  RankLines lines(context, first, view_of(launch.output));
  MUSTER_ASSIGN(const auto end,
                cluster::run_process_group(spec, system_processes(), lines, context.logger()));
  return RanksEnd{failure_of(end, first), end.failed ? std::nullopt : end.signal,
                  end.signal.has_value()};
}

// Who failed on the way to the end that it has asked for is told; what counts is the wish.
ExitCode end_by_signal(const RanksEnd& end, Context& context) {
  const auto code = static_cast<ExitCode>(128 + *end.signal);
  return end.status ? code : report(context, end.status.error(), code);
}

// A program is looked for as a shell does, while torchrun takes its script from the working folder.
Error not_begun(Error why, const std::string& program) {
  if (why.code != ErrorCode::kNotFound) return why;
  why.message += program.find('/') == std::string::npos
                     ? fmt::format(
                           "; it is in no folder of PATH; one that lies here is `./{0}`, a "
                           "script `python3 {0}`",
                           program)
                     : "; check the path, and, of a script, the interpreter in its first line";
  return why;
}

ExitCode run_command(const LaunchFlags& flags, const std::vector<std::string>& command,
                     Context& context) {
  const auto place = launch_place(flags, context.environment,
                                  static_cast<std::int32_t>(cluster::available_cores().size()));
  if (!place) return report(context, place.error());
  const auto output = launch_output(flags, context.environment);
  if (!output) return report(context, output.error());
  for (const std::string& name : flags.without_effect)
    warn(context, fmt::format("[launch] {} has no effect: it tells torchrun's agent how to start "
                              "and watch processes of Python",
                              name));
  for (Launch launch{*place, *output, command};; ++launch.attempt) {
    const auto end = place->nodes == 1 ? run_here(launch, context) : run_part(launch, context);
    if (!end) return report(context, not_begun(end.error(), command.front()));
    if (end->signal) return end_by_signal(*end, context);
    if (end->status) return ExitCode::kDone;
    if (launch.attempt == place->max_restarts || end->stop_asked)
      return report(context, end->status.error(), ExitCode::kFailed);
    warn(context,
         fmt::format("{}\n[launch] all are started again: {} of {} (--max-restarts)",
                     end->status.error().message, launch.attempt + 1, place->max_restarts));
  }
}

void add_flags(CLI::App& command, LaunchFlags& flags) {
  command
      .add_option("--workers,-w,-n,--np,--nproc-per-node,--nproc_per_node", flags.per_node,
                  "Processes on this host; auto: one a core")
      ->type_name("N");
  command
      .add_option("--max-restarts,--max_restarts", flags.max_restarts,
                  "Start all again where one fails, so many times; 0 unless given")
      ->type_name("N");
  const auto add = [&command](const char* names, std::string& into, const char* type,
                              const char* help) {
    command.add_option(names, into, help)->type_name(type)->group("On several hosts, on each");
  };
  add("--nnodes", flags.nodes, "N", "Hosts");
  add("--node-rank,--node_rank", flags.node_rank, "N", "Which of them this is, from 0 on");
  add("--rdzv-endpoint,--rdzv_endpoint", flags.endpoint, "HOST[:PORT]",
      "The first one, as all reach it; port 29500 unless given");
  add("--master-addr,--master_addr", flags.master_host, "HOST", "The same in two flags");
  add("--master-port,--master_port", flags.master_port, "PORT", "The port beside --master-addr");
  add("--local-addr,--local_addr", flags.local_host, "HOST",
      "This one's address, as the others reach it; found out unless given");
  add("--rdzv-id,--rdzv_id", flags.id, "TEXT", "Sets it apart from others that meet there");
}

void add_output_flags(CLI::App& command, LaunchFlags& flags) {
  const auto add = [&command](const char* names, std::string& into, const char* type,
                              const char* help) {
    command.add_option(names, into, help)->type_name(type)->group("What processes write");
  };
  add("--log-dir,--log_dir", flags.log_folder, "DIR", "Also write it to DIR/rank-N.log");
  add("-r,--redirects", flags.redirects, "STREAMS",
      "Only write it there: 1 output, 2 errors, 3 both; 0:1,1:3 of some processes");
  add("-t,--tee", flags.tee, "STREAMS", "Show it all the same");
  add("--role", flags.role, "NAME", "Show it as NAME1 and so on, instead of rank1");
}

// Those of `muster train`, whose users may try them here.
void refuse_hosts(const std::string&) {
  throw CLI::ValidationError(
      "--hosts",
      "hosts are of jobs, whose workers `muster train` starts by ssh; start a program of your "
      "own on each of them, with --nnodes, --node-rank and --rdzv-endpoint");
}

// What torchrun needs to be told and this does not.
void accept_flags_of_torchrun(CLI::App& command, LaunchFlags& flags) {
  for (const char* names : {"--rdzv-backend,--rdzv_backend", "--rdzv-conf,--rdzv_conf"})
    command.add_option_function<std::string>(names, [](const std::string&) {})->group("");
  command.add_option_function<std::string>("-H,--hosts,--host,--hostfile", refuse_hosts)->group("");
  command.add_flag("--standalone,--no-python,--no_python")->group("");
  const auto ignore = [&command, &flags](const std::string& names) {
    const auto note = [&flags, name = names.substr(0, names.find(','))](const std::string&) {
      flags.without_effect.push_back(name);
    };
    command.add_option_function<std::string>(names, note)->group("");
  };
  ignore("--monitor-interval,--monitor_interval");
  ignore("--start-method,--start_method");
}

}  // namespace

void add_launch_command(CLI::App& app, Context& context) {
  CLI::App& command = add_command(
      app, "launch", "Start a program that calls muster::join() on several processes",
      {"muster launch -n 2 ./train", "muster launch -n 4 ./train --epochs 3",
       "muster launch --nnodes 2 --node-rank 1 --rdzv-endpoint head:29500 -n 4 ./train"});
  const auto flags = std::make_shared<LaunchFlags>();
  add_flags(command, *flags);
  add_output_flags(command, *flags);
  accept_flags_of_torchrun(command, *flags);
  add_log_option(command, context);
  starts_a_program(command);
  command.callback([flags, &command, &context] {
    context.action = [flags, program = program_of(command), &context] {
      return program ? run_command(*flags, *program, context) : report(context, program.error());
    };
  });
}

}  // namespace muster::cli
