#include "muster/cli/doctor_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "muster/base/process.h"
#include "muster/base/text_width.h"
#include "muster/cli/application.h"
#include "muster/cli/doctor.h"
#include "muster/cli/fetch_libtorch.h"
#include "muster/cli/json_line.h"

namespace muster::cli {
namespace {

constexpr std::size_t kFoundColumn = 24;  // of what was found

std::string_view word(CheckState state) {
  switch (state) {
    case CheckState::kOk:
      return "ok";
    case CheckState::kWarning:
      return "warn";
    case CheckState::kBad:
      return "bad";
  }
  return {};
}

std::string_view colour_of(CheckState state) {
  switch (state) {
    case CheckState::kOk:
      return "\x1b[32m";
    case CheckState::kWarning:
      return "\x1b[33m";
    case CheckState::kBad:
      return "\x1b[31m";
  }
  return {};
}

// In lines that fit a terminal; elsewhere each in one, for whoever searches them.
std::string in_its_column(const std::string& text, const Context& context) {
  if (!context.out_is_terminal) return text;
  return wrapped_behind(text, static_cast<std::size_t>(std::max(context.out_width, 1)),
                        kFoundColumn);
}

void tell(const std::vector<Check>& checks, Context& context) {
  const bool colour = context.colour(context.out_is_terminal);
  for (const auto& check : checks) {
    const auto mark = fmt::format("{:<4}", word(check.state));
    context.out << fmt::format(
        "{}  {:<16}  {}\n",
        colour ? fmt::format("{}{}\x1b[0m", colour_of(check.state), mark) : mark, check.name,
        in_its_column(check.value, context));
    if (!check.fix.empty())
      context.out << fmt::format("{:{}}{}\n", "", kFoundColumn, in_its_column(check.fix, context));
  }
}

void tell_json(const std::vector<Check>& checks, bool good, Context& context) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& check : checks) {
    list.push_back({{"name", check.name},
                    {"state", word(check.state)},
                    {"value", check.value},
                    {"fix", check.fix}});
  }
  context.out << json_line({{"ok", good}, {"checks", list}});
}

struct DoctorArguments {
  bool json = false;
  bool fix = false;
  std::optional<std::uint16_t> port;
};

ExitCode doctor(const DoctorArguments& arguments, Context& context) {
  const auto checks = examine(context, arguments.port);
  const bool good = std::none_of(checks.begin(), checks.end(), [](const Check& check) {
    return check.state == CheckState::kBad;
  });
  if (context.answers_json(arguments.json)) {
    tell_json(checks, good, context);
  } else {
    tell(checks, context);
  }
  return good ? ExitCode::kDone : ExitCode::kEnvironment;
}

// Fetches with pip's own progress, in the terminal that this has, and then looks again.
ExitCode fix(Context& context) {
  const auto fetcher = libtorch_fetcher(context);
  if (!fetcher)
    return report(context,
                  fail(ErrorCode::kUnsupported,
                       "[doctor] --fix fetches libtorch for an installed muster, and this one was "
                       "built with the one that it has; script/dependencies installs that again"));
  std::vector<std::string> command = {
      "/bin/sh", "-c", "PIP_NO_CACHE_DIR=1 \"$1\" \"$2\" \"$3\" && exec \"$0\" doctor",
      context.absolute(context.program).string()};
  for (std::string& word : fetcher->command()) command.push_back(std::move(word));
  return report(context, become_program(std::move(command)));
}

}  // namespace

void add_doctor_command(CLI::App& app, Context& context) {
  auto& command =
      add_command(app, "doctor", "Check this machine and say what to fix",
                  {"muster doctor", "muster doctor --port 29400", "sudo muster doctor --fix"});
  auto arguments = std::make_shared<DoctorArguments>();
  command
      .add_option("--port", arguments->port,
                  "Try whether others could be listened for at this port, on all interfaces")
      ->type_name("N")
      ->check(CLI::Range(1, 65535));
  command.add_flag("--json", arguments->json, "Answer in JSON");
  command
      .add_flag("--fix", arguments->fix,
                "Fetch libtorch for a muster that was installed without it, and look again")
      ->excludes("--json")
      ->excludes("--port");
  command.callback([arguments, &context] {
    context.action = [arguments, &context] {
      return arguments->fix ? fix(context) : doctor(*arguments, context);
    };
  });
}

}  // namespace muster::cli
