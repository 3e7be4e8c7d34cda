#include "muster/cli/checkpoint_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <ranges>
#include <utility>

#include "muster/base/text_width.h"
#include "muster/base/units.h"
#include "muster/checkpoint/best.h"
#include "muster/checkpoint/export.h"
#include "muster/checkpoint/survey.h"
#include "muster/checkpoint/verify.h"
#include "muster/cli/application.h"
#include "muster/cli/find_run.h"
#include "muster/cli/json_line.h"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CheckpointArguments {
  std::string place;  // a run, its checkpoints, or one of them
  std::optional<std::int64_t> step;
  std::string output = ".";
  bool best = false;
  checkpoint::ExportOptions options;
  bool json = false;
};

// What was asked for: one checkpoint, or all of a run.
struct Selection {
  Path folder;
  std::vector<checkpoint::Found> found;
};

// The folder of that name, or the run that is called so.
Result<Path> place_of(const std::string& word, Context& context) {
  if (context.files.size(word))
    return fail(ErrorCode::kInvalid,
                fmt::format("[checkpoint] {} is a file; give a run or one of its checkpoints, as "
                            "in runs/fashion/latest",
                            word));
  if (context.files.exists(word)) return Path(word);
  const auto run = find_run({.run = word, .runs = {}}, context);
  if (run) return run->root();
  return fail(ErrorCode::kNotFound,
              fmt::format("[checkpoint] no folder {}, and no run of that name; give a run or one "
                          "of its checkpoints, as in runs/fashion/latest",
                          word));
}

// What the place holds.
Result<Selection> look_in(const CheckpointArguments& arguments, Context& context) {
  Files& files = context.files;
  MUSTER_ASSIGN(const Path place, place_of(arguments.place, context));
  const Path plain = place.has_filename() ? place : place.parent_path();
  if (const auto name = checkpoint::folder_name_from_string(plain.filename().native())) {
    return Selection{plain, {{*name, plain, checkpoint::inspect(files, plain)}}};
  }
  if (files.exists(plain / checkpoint::kManifestName)) {  // copied, or renamed
    auto manifest = checkpoint::inspect(files, plain);
    const checkpoint::FolderName name{manifest ? manifest->step : Step{0}, 0};
    return Selection{plain, {{name, plain, std::move(manifest)}}};
  }
  const bool is_run = files.exists(plain / "checkpoints");
  const Path folder = is_run ? plain / "checkpoints" : plain;
  MUSTER_ASSIGN(auto found, checkpoint::survey(files, folder));
  return Selection{folder, std::move(found)};
}

Result<Selection> select(const CheckpointArguments& arguments, Context& context) {
  MUSTER_ASSIGN(auto selection, look_in(arguments, context));
  if (arguments.step)
    std::erase_if(selection.found,
                  [&](const auto& one) { return to_int(one.name.step) != *arguments.step; });
  if (!selection.found.empty()) return selection;
  const std::string wanted =
      arguments.step ? fmt::format(" of step {}", *arguments.step) : std::string();
  return fail(ErrorCode::kNotFound,
              fmt::format("[checkpoint] no checkpoint{} in {}", wanted, selection.folder.native()));
}

// By manifest and sizes; whether it is whole, only verify can say.
std::string state_of(const checkpoint::Found& found) {
  if (found.manifest) return "complete";
  return found.manifest.error().code == ErrorCode::kNotFound ? "torn" : "damaged";
}

// Null: there is none, as where the job names no metric to watch.
const checkpoint::Found* best_of(const Selection& selection) {
  return checkpoint::find_best(selection.found, checkpoint::newest_state(selection.found));
}

void list_json(const Selection& selection, Context& context) {
  const auto* best = best_of(selection);
  for (const auto& found : selection.found) {
    const auto& manifest = found.manifest;
    Json entry = {{"step", to_int(found.name.step)},
                  {"folder", found.folder.native()},
                  {"state", state_of(found)},
                  {"best", &found == best}};
    if (manifest) {
      entry["created"] = manifest->created;
      entry["bytes"] = manifest->bytes();
      entry["generation"] = to_int(manifest->generation);
      entry["job"] = manifest->job;
      entry["trainer"] = Json::parse(manifest->state);
    } else {
      entry["why"] = manifest.error().message;
    }
    context.out << json_line(entry);
  }
}

// Folders whole, or as they are called in the one that they all lie in.
std::vector<std::string> lines_of(const Selection& selection, bool whole) {
  const auto* best = best_of(selection);
  std::vector<std::string> lines = {
      fmt::format("{:>10}  {:<20}  {:>10}  {:<8}  {}", "step", "saved", "size", "state", "folder")};
  for (const auto& found : selection.found) {
    const auto& manifest = found.manifest;
    lines.push_back(fmt::format("{:>10}  {:<20}  {:>10}  {:<8}  {}{}", to_int(found.name.step),
                                manifest ? manifest->created : "-",
                                manifest ? format_bytes(manifest->bytes()) : "-", state_of(found),
                                (whole ? found.folder : found.folder.filename()).native(),
                                &found == best ? "  (best)" : ""));
  }
  return lines;
}

// A terminal that is too narrow for it is told once where they lie.
void list_text(const Selection& selection, Context& context) {
  std::vector<std::string> lines = lines_of(selection, true);
  const Path in = selection.found.front().folder.parent_path();
  const bool fits = std::ranges::all_of(lines, [&](const std::string& line) {
    return std::cmp_less_equal(display_width(line), context.out_width);
  });
  if (context.out_is_terminal && !fits && !in.empty()) {
    lines = lines_of(selection, false);
    context.out << fmt::format("in {}:\n", in.native());
  }
  for (const std::string& line : lines) context.out << line << "\n";
  context.out << "(by sizes; `muster checkpoint verify` reads everything)\n";
}

ExitCode list(const CheckpointArguments& arguments, Context& context) {
  const auto selection = select(arguments, context);
  if (!selection) return report(context, selection.error());
  if (context.answers_json(arguments.json)) {
    list_json(*selection, context);
  } else {
    list_text(*selection, context);
  }
  const bool damaged = std::ranges::any_of(
      selection->found, [](const auto& found) { return state_of(found) == "damaged"; });
  return damaged ? ExitCode::kFailed : ExitCode::kDone;
}

// As `state_of` says, where nothing was left of the manifest to verify anything by.
std::string_view verdict(const checkpoint::Found& found, const checkpoint::VerifyReport& one) {
  if (one.whole()) return "whole";
  return state_of(found) == "torn" ? "torn" : "damaged";
}

Json verify_json(const checkpoint::Found& found, const checkpoint::VerifyReport& one) {
  Json damage = Json::array();
  for (const auto& [file, chunk, what] : one.damage) {
    Json entry = {{"file", file}, {"what", what}};
    if (chunk) entry["chunk"] = *chunk;
    damage.push_back(std::move(entry));
  }
  return {{"folder", one.folder.native()},
          {"whole", one.whole()},
          {"state", verdict(found, one)},
          {"bytes_checked", one.bytes},
          {"damage", std::move(damage)}};
}

void verify_text(const checkpoint::Found& found, const checkpoint::VerifyReport& one,
                 Context& context) {
  context.out << fmt::format("{}: {}, {} checked\n", one.folder.native(), verdict(found, one),
                             format_bytes(one.bytes));
  for (const auto& [file, chunk, what] : one.damage) {
    context.out << context.fitted_to_out(fmt::format("  {}: {}", file, what)) << "\n";
  }
}

ExitCode verify(const CheckpointArguments& arguments, Context& context) {
  const auto selection = select(arguments, context);
  if (!selection) return report(context, selection.error());
  const bool json = context.answers_json(arguments.json);
  bool all_whole = true;
  for (const auto& found : selection->found) {
    const auto one = checkpoint::verify_checkpoint(context.files, found.folder);
    if (!one) return report(context, one.error());
    all_whole = all_whole && one->whole();
    if (json) context.out << json_line(verify_json(found, *one));
    if (!json) verify_text(found, *one, context);
  }
  return all_whole ? ExitCode::kDone : ExitCode::kFailed;
}

// The newest of the selection that is whole to the last byte; older ones only with a word.
Result<std::pair<Path, checkpoint::Exported>> export_newest(const Selection& selection,
                                                            const CheckpointArguments& arguments,
                                                            Context& context) {
  Error last = fail(ErrorCode::kNotFound, "");
  for (auto found = selection.found.rbegin(); found != selection.found.rend(); ++found) {
    auto exported = found->manifest
                        ? checkpoint::export_weights(context.files, found->folder, arguments.output,
                                                     arguments.options)
                        : Result<checkpoint::Exported>(found->manifest.error());
    if (exported) return std::pair(found->folder, *exported);
    const ErrorCode code = exported.error().code;
    if (code != ErrorCode::kCorrupt && code != ErrorCode::kNotFound) return exported.error();
    if (selection.found.size() == 1) return exported.error();
    warn(context,
         fmt::format("passed over {}: {}", found->folder.native(), exported.error().message));
    last = std::move(exported).error();
  }
  return fail(last.code, fmt::format("[checkpoint/export] no whole checkpoint in {}",
                                     selection.folder.native()));
}

Result<std::pair<Path, checkpoint::Exported>> export_best(const Selection& selection,
                                                          const CheckpointArguments& arguments,
                                                          Context& context) {
  const auto* best = best_of(selection);
  if (best == nullptr)
    return fail(ErrorCode::kNotFound,
                fmt::format("[checkpoint/export] {} holds no best checkpoint: nothing has been "
                            "evaluated yet, or evaluation.keep_best is off",
                            selection.folder.native()));
  MUSTER_ASSIGN(
      const auto exported,
      checkpoint::export_weights(context.files, best->folder, arguments.output, arguments.options));
  if (const auto step = checkpoint::remembered_best(checkpoint::newest_state(selection.found));
      step != best->name.step)
    warn(context, fmt::format("the best evaluation was after step {}, whose weights were not kept; "
                              "those of step {} are the best that are there",
                              to_int(*step), to_int(best->name.step)));
  return std::pair(best->folder, exported);
}

ExitCode export_to(const CheckpointArguments& arguments, Context& context) {
  const auto selection = select(arguments, context);
  if (!selection) return report(context, selection.error());
  const auto exported = arguments.best ? export_best(*selection, arguments, context)
                                       : export_newest(*selection, arguments, context);
  if (!exported) return report(context, exported.error());
  const auto& [folder, written] = *exported;
  if (context.answers_json(arguments.json)) {
    context.out << json_line({{"file", written.file.native()},
                              {"tensors", written.tensors},
                              {"bytes", written.bytes},
                              {"folder", folder.native()}});
    return ExitCode::kDone;
  }
  context.out << fmt::format("{}: {} tensors, {}, from {}\n", written.file.native(),
                             written.tensors, format_bytes(written.bytes), folder.native());
  return ExitCode::kDone;
}

// Of numbers: CLI11 refuses what is none, but takes one that does not fit for the largest that
// does.
std::string check_step(const std::string& word) {
  constexpr std::size_t kMostDigits = 18;
  const bool fits = !word.starts_with('-') && word.size() <= kMostDigits;
  return fits ? "" : fmt::format("expected the number of a step, found `{}`", word);
}

using Arguments = std::shared_ptr<CheckpointArguments>;

CLI::App& add_verb(CLI::App& parent, Context& context, const Arguments& arguments,
                   const std::string& name, const std::string& summary,
                   const std::vector<std::string>& examples,
                   ExitCode (*action)(const CheckpointArguments&, Context&)) {
  CLI::App& verb = add_command(parent, name, summary, examples);
  verb.add_option("RUN_OR_FOLDER", arguments->place,
                  "A run (its folder, id or name), its checkpoints folder or one checkpoint")
      ->required();
  verb.add_option("--step", arguments->step, "Only the checkpoint of this step")->check(check_step);
  verb.callback([arguments, action, &context] {
    context.action = [arguments, action, &context] { return action(*arguments, context); };
  });
  return verb;
}

void add_json(CLI::App& verb, const Arguments& arguments) {
  verb.add_flag("--json", arguments->json, "Answer in JSON");
}

}  // namespace

void add_checkpoint_command(CLI::App& app, Context& context) {
  CLI::App& command =
      add_command(app, "checkpoint", "List, verify or export checkpoints",
                  {"muster checkpoint list runs/fashion/latest",
                   "muster checkpoint export runs/fashion/latest --output weights"});
  command.require_subcommand(1);
  const auto arguments = std::make_shared<CheckpointArguments>();
  add_json(add_verb(command, context, arguments, "list", "Show what a run has saved",
                    {"muster checkpoint list runs/fashion/latest",
                     "muster checkpoint list --json runs/fashion/latest"},
                    list),
           arguments);
  add_json(add_verb(command, context, arguments, "verify",
                    "Read checkpoints and name every damaged chunk",
                    {"muster checkpoint verify runs/fashion/latest",
                     "muster checkpoint verify --step 500 --json runs/fashion/latest"},
                    verify),
           arguments);
  CLI::App& exporter =
      add_verb(command, context, arguments, "export",
               "Write the newest whole checkpoint's weights as model.safetensors",
               {"muster checkpoint export runs/fashion/latest",
                "muster checkpoint export --best --output weights runs/fashion/latest"},
               export_to);
  add_json(exporter, arguments);
  exporter.add_flag("--average", arguments->options.average,
                    "The average of the weights (ema.decay) instead of the trained ones");
  exporter.add_flag("--merge", arguments->options.merge,
                    "With adapters (lora.rank) put into the matrices that they lie beside");
  exporter.add_flag("--best", arguments->best, "The best checkpoint instead of the newest")
      ->excludes(exporter.get_option("--step"));
  exporter.add_flag("--force", arguments->options.replace, "Replace a model.safetensors there");
  exporter.add_option("-o,--output", arguments->output, "Folder for model.safetensors")
      ->capture_default_str();
}

}  // namespace muster::cli
