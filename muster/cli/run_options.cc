#include "muster/cli/run_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "muster/cli/machine.h"

namespace muster::cli {

void add_workers_option(CLI::App& command, std::string& workers) {
  command
      .add_option("--workers,-w,-n,--np,--nproc-per-node,--nproc_per_node", workers,
                  "Training processes on this machine; auto: one a core, at most one a slice")
      ->type_name("N")
      ->check([](const std::string& word) {
        return std::string(word.empty() ? "expected a number of processes, or auto" : "");
      });
}

void add_workers(const std::string& workers, const Context& context, job::LoadOptions& options) {
  if (workers.empty()) return;
  job::FlagValue flag{"--workers", "workers.count", workers, {}};
  if (workers == "auto" || workers == "cpu") {
    flag.meaning = [cores = static_cast<std::int64_t>(context.machine.cores())](const auto& job) {
      return std::to_string(std::clamp<std::int64_t>(cores, 1, job.training.virtual_workers));
    };
  }
  options.flags.push_back(std::move(flag));
}

observe::ConsoleOptions console_options(const job::JobSpec& job, const Context& context) {
  observe::ConsoleOptions console = observe::choose_console(
      context.out_is_terminal, [&](std::string_view name) -> std::optional<std::string> {
        const auto found = context.environment.find(std::string(name));
        if (found == context.environment.end()) return std::nullopt;
        return found->second;
      });
  const bool json = context.log == LogFormat::kJson || job.logging.format == job::LogStyle::kJson;
  if (json) console.format = observe::ConsoleFormat::kJson;
  console.logging_steps = job.logging.logging_steps;
  return console;
}

}  // namespace muster::cli
