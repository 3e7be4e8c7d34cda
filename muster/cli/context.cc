#include "muster/cli/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "muster/app/engines/mpi.h"
#include "muster/app/engines/nccl.h"
#include "muster/base/text_width.h"
#include "muster/cli/json_line.h"
#include "muster/cli/machine.h"

namespace muster::cli {
namespace {

bool is_set(const std::map<std::string, std::string>& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found != environment.end() && !found->second.empty();
}

bool is_dumb(const std::map<std::string, std::string>& environment) {
  const auto term = environment.find("TERM");
  return term != environment.end() && term->second == "dumb";
}

constexpr std::string_view kError = "error:";

// Of a file, as job::render() shows it: "   12 | model:", and the marks below.
bool is_excerpt(std::string_view line) {
  const auto bar = line.find_first_not_of(" 0123456789");
  return bar != line.npos && bar > 0 && line.substr(bar - 1).starts_with(" |");
}

void tell_line(Context& context, std::string_view level, const std::string& message) {
  context.err << (context.log == LogFormat::kJson
                      ? json_line({{"level", level}, {"message", message}})
                      : context.fitted_to_err(fmt::format("{}: {}", level, message)) + "\n");
}

}  // namespace

std::vector<Path> Context::program_folders() const {
  const auto path = environment.find("PATH");
  std::stringstream folders(path == environment.end() ? "" : path->second);
  std::vector<Path> found;
  for (std::string folder; std::getline(folders, folder, ':');) found.emplace_back(folder);
  return found;
}

std::optional<std::string> Context::variable(const std::string& name) const {
  const auto found = environment.find(name);
  if (found == environment.end()) return std::nullopt;
  return found->second;
}

Path Context::absolute(const Path& path) const { return machine.folder() / path; }

bool Context::colour(bool terminal) const {
  return terminal && log == LogFormat::kText && !is_set(environment, "NO_COLOR") &&
         !is_set(environment, "CI") && !is_dumb(environment);
}

bool Context::redraws(bool terminal) const {
  return terminal && log == LogFormat::kText && !is_set(environment, "CI") && !is_dumb(environment);
}

std::size_t Context::width_of_out() const {
  return out_is_terminal ? static_cast<std::size_t>(std::max(out_width, 1)) : 0;
}

std::size_t Context::width_of_err() const {
  return err_is_terminal ? static_cast<std::size_t>(std::max(err_width, 1)) : 0;
}

std::string Context::fitted_to_out(std::string_view text) const {
  return fitted(text, width_of_out());
}

std::string Context::fitted_to_err(std::string_view text) const {
  std::string lines;
  for (;;) {
    const auto end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    lines += is_excerpt(line) ? std::string(line) : fitted(line, width_of_err());
    if (end == text.npos) return lines;
    lines += '\n';
    text.remove_prefix(end + 1);
  }
}

Logger Context::logger() const { return create_stderr_logger(log, width_of_err()); }

bool Context::live() const { return redraws(err_is_terminal); }

ExitCode report(Context& context, const Error& error) {
  return report(context, error, exit_code(error.code));
}

ExitCode conclude(Context& context, const Status& status) {
  return status ? ExitCode::kDone : report(context, status.error());
}

ExitCode report(Context& context, const Error& error, ExitCode code) {
  if (context.log == LogFormat::kJson) {
    const nlohmann::ordered_json line = {{"level", "error"},
                                         {"code", to_string(error.code)},
                                         {"exit", static_cast<int>(code)},
                                         {"message", error.message}};
    context.err << json_line(line);
    return code;
  }
  const bool colour = context.colour(context.err_is_terminal);
  const std::string text = context.fitted_to_err(fmt::format("{} {}", kError, error.message));
  context.err << (colour ? "\x1b[31merror:\x1b[0m" : kError) << text.substr(kError.size()) << "\n";
  return code;
}

void warn(Context& context, const std::string& message) { tell_line(context, "warning", message); }
void note(Context& context, const std::string& message) { tell_line(context, "note", message); }

Path worker_path(const Context& context) {
  return context.is_worker ? context.program : context.program.parent_path() / "muster-worker";
}

Result<Path> worker_program(const Context& context) {
  Path worker = worker_path(context);
  if (context.machine.can_be_started(worker)) return worker;
  if (context.files.exists(worker)) {
    return fail(
        ErrorCode::kUnavailable,
        fmt::format("[muster] {} is no program that can be started; chmod +x it, or build it "
                    "again: script/quickstart, or cmake --build --preset release",
                    worker.string()));
  }
  return fail(
      ErrorCode::kUnavailable,
      fmt::format("[muster] {} is missing: it lies beside muster where both were built with "
                  "libtorch; run script/quickstart, or cmake --build --preset release",
                  worker.string()));
}

Result<Path> mpi_module(const Context& context) {
  return app::mpi_module([&](const std::string& name) { return context.variable(name); },
                         context.program.parent_path());
}

Result<Path> nccl_module(const Context& context) {
  return app::nccl_module(
      context.files, [&](const std::string& name) { return context.variable(name); },
      context.program.parent_path());
}

std::map<std::string, std::string> variables_of(char** environment) {
  std::map<std::string, std::string> variables;
  for (char** entry = environment; entry && *entry; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

bool is_terminal_of_launcher(const std::map<std::string, std::string>& environment) {
  if (is_set(environment, "OMPI_COMM_WORLD_RANK")) return true;
  // srun has none between, but for `srun --pty`, which hands on the one of a person.
  if (is_set(environment, "SLURM_PTY_PORT")) return false;
  return is_set(environment, "PMIX_RANK") || is_set(environment, "PMI_RANK");
}

}  // namespace muster::cli
