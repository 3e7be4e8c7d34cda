#include "muster/cli/data_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "muster/app/data/ledger_audit.h"
#include "muster/base/units.h"
#include "muster/cli/application.h"
#include "muster/cli/find_run.h"
#include "muster/cli/json_line.h"
#include "muster/observe/run_folder.h"
#include "muster/observe/run_list.h"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;

struct AuditArguments {
  RunArguments run;
  bool json = false;
};

Json to_json(const app::LedgerAudit& audit) {
  return {{"well", audit.well()},
          {"proven", audit.proven()},
          {"steps", audit.steps},
          {"samples", audit.samples},
          {"whole_epochs", audit.whole_epochs},
          {"epoch_size", audit.epoch_size},
          {"lost", audit.lost},
          {"repeated", audit.repeated},
          {"superseded_steps", audit.superseded},
          {"unrecorded_steps", audit.unrecorded},
          {"unrecorded_ranges", audit.unrecorded_ranges},
          {"generations", audit.generations},
          {"starts", audit.starts},
          {"faults", audit.faults}};
}

// What the ledger proves.
std::string conclusion(const app::LedgerAudit& audit) {
  if (!audit.well()) return "NOT well";
  if (audit.proven()) return "every sample exactly once";
  return fmt::format("every recorded sample once; {} {} in no ledger",
                     counted(audit.unrecorded, "step"), audit.unrecorded == 1 ? "is" : "are");
}

// A script that asks for a proof must not go on with less; what is wrong comes before what is
// missing.
ExitCode exit_of(const app::LedgerAudit& audit) {
  if (!audit.well()) return ExitCode::kFailed;
  return audit.proven() ? ExitCode::kDone : ExitCode::kEnvironment;
}

std::string audit_text(const app::LedgerAudit& audit, const Path& ledger) {
  std::string text = fmt::format(
      "{}: {}\n  {} in {}, {}\n  {} of {} samples whole, {} committed in all\n  lost      {}\n  "
      "repeated  {}\n",
      ledger.native(), conclusion(audit), counted(audit.steps, "step"),
      counted(audit.generations, "generation"), counted(audit.starts, "start"),
      counted(audit.whole_epochs, "epoch"), audit.epoch_size, audit.samples, audit.lost,
      audit.repeated);
  if (audit.superseded > 0) {
    text += fmt::format("  {} trained again, after a resume or a death, and counted once\n",
                        counted(audit.superseded, "step"));
  }
  if (audit.unrecorded > 0) {
    text += fmt::format(
        "  {} not in the ledger: the launcher died before it wrote of them, or its disk was full\n",
        counted(audit.unrecorded, "step"));
    for (const auto& [first, last] : audit.unrecorded_ranges)
      text += first == last ? fmt::format("    step {}\n", first)
                            : fmt::format("    steps {} to {}\n", first, last);
  }
  for (const std::string& fault : audit.faults) text += "  " + fault + "\n";
  return text;
}

// A launcher that is killed has told of steps that it had not written into the ledger; while it
// lives it writes them within a second.
Step reached(const observe::RunFolder& folder, Context& context) {
  const observe::RunInfo run = observe::look_at(context.files, folder);
  return run.state == observe::RunState::kRunning ? Step{0} : observe::last_step(run.outline);
}

ExitCode audit(const AuditArguments& arguments, Context& context) {
  const auto folder = find_run(arguments.run, context);
  if (!folder) return report(context, folder.error());
  if (!context.files.exists(folder->ledger())) {
    return report(context, fail(ErrorCode::kNotFound,
                                fmt::format("[data/audit] no ledger in {}; give a run's folder, as "
                                            "in runs/fashion/latest",
                                            folder->root().native())));
  }
  const auto text = context.files.read(folder->ledger());
  if (!text) return report(context, text.error());
  const auto found = app::audit_ledger(*text, reached(*folder, context));
  if (!found) return report(context, with_context(found.error(), folder->ledger().native()));
  if (context.answers_json(arguments.json)) {
    context.out << json_line(to_json(*found));
  } else {
    context.out << context.fitted_to_out(audit_text(*found, folder->ledger()));
  }
  return exit_of(*found);
}

}  // namespace

void add_data_command(CLI::App& app, Context& context) {
  CLI::App& command = add_command(
      app, "data", "Say what a run has done with its data",
      {"muster data audit runs/fashion/latest", "muster data audit --json runs/fashion/latest"});
  command.require_subcommand(1);
  CLI::App& verb = add_command(
      command, "audit", "Check that every sample was trained on exactly once",
      {"muster data audit runs/fashion/latest", "muster data audit --json runs/fashion/latest"});
  const auto arguments = std::make_shared<AuditArguments>();
  add_run_arguments(verb, arguments->run);
  verb.add_flag("--json", arguments->json, "Answer in JSON");
  verb.callback([arguments, &context] {
    context.action = [arguments, &context] { return audit(*arguments, context); };
  });
}

}  // namespace muster::cli
