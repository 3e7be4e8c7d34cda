#include "muster/cli/application.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <ostream>

#include "muster/app/version/version.h"
#include "muster/base/units.h"
#include "muster/cli/help_formatter.h"
#include "muster/cli/parse_error.h"

namespace muster::cli {
namespace {

void add_global_options(CLI::App& app, Context& context) {
  app.formatter(std::make_shared<HelpFormatter>(context.out_width));
  app.set_help_flag("-h,--help", "Show this and leave");
  app.set_version_flag(
      "--version",
      fmt::format("{}\nlibtorch {}", app::version_and_commit(),
                  app::libtorch().empty() ? "none: built without" : app::libtorch()),
      "Show the versions of muster and libtorch and the commit, and leave");
  add_log_option(app, context);
  app.require_subcommand(0, 1);
  app.fallthrough();
  app.footer("`muster COMMAND --help` shows examples; docs/cli.md has exit codes and variables.");
}

// The examples are those of muster; a program of a user's has another name.
std::string called(std::string example, const std::string& program) {
  constexpr std::string_view kMuster = "muster ";
  if (example.starts_with(kMuster)) example.replace(0, kMuster.size() - 1, program);
  return example;
}

// As it is called: "muster checkpoint list".
std::string path_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent ? path_of(*parent) + " " + command.get_name() : command.get_name();
}

std::string nearest_option(const CLI::App& command, const std::string& word) {
  std::vector<std::string> names;
  for (const auto* option : command.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const auto near = nearest(word.substr(0, word.find('=')), known);
  return near.empty() ? fmt::format("`{} --help` lists the options", path_of(command))
                      : fmt::format("did you mean `{}`?", near);
}

// The last of the commands that were chosen, or the program.
const CLI::App& innermost(const CLI::App& app) {
  const CLI::App* inner = &app;
  while (!inner->get_subcommands().empty()) inner = inner->get_subcommands().front();
  return *inner;
}

// Where nothing takes the word, and a command is what should stand there.
bool is_unknown_command(const CLI::App& app, const std::string& word) {
  return !word.starts_with('-') && !commands_of(innermost(app)).empty();
}

// An option of the command, or one that it has from the program.
bool has_option(const CLI::App& command, const std::string& name) {
  if (command.get_option_no_throw(name) != nullptr) return true;
  return command.get_parent() != nullptr && has_option(*command.get_parent(), name);
}

bool is_behind_dashes(const std::string& word, const std::vector<std::string>& arguments) {
  const auto dashes = std::ranges::find(arguments, "--");
  return dashes != arguments.end() &&
         std::find(dashes + 1, arguments.end(), word) != arguments.end();
}

// Of an option that the command has, and that nothing took.
std::string place_of_option(const CLI::App& command, const std::string& word,
                            const std::vector<std::string>& arguments) {
  if (is_behind_dashes(word, arguments))
    return "stands behind `--`, where no word is an option; put it before";
  return fmt::format("belongs behind `{}`", path_of(command));
}

// Words that nothing takes: a misspelt command, a misspelt or misplaced option, or one argument too
// many.
Error unknown_words(const CLI::App& app, const std::vector<std::string>& words,
                    const std::vector<std::string>& arguments) {
  const auto& word = words.front();
  const CLI::App& command = innermost(app);
  if (is_unknown_command(app, word)) return unknown_command(command, word);
  if (word.starts_with('-') && has_option(command, word.substr(0, word.find('='))))
    return fail(ErrorCode::kInvalid,
                fmt::format("option `{}` {}", word, place_of_option(command, word, arguments)));
  const bool is_option = word.starts_with('-') && !is_behind_dashes(word, arguments);
  const auto what = is_option ? "unknown option" : "unexpected argument";
  return fail(ErrorCode::kInvalid,
              fmt::format("{} `{}`; {}", what, word, nearest_option(command, word)));
}

// Before a program's words that begin with a dash, so that CLI11 reads none of them: not even --,
// which it takes for the end of the command's words and the begin of more of the application's.
constexpr char kHeld = '\x01';

// The first word from `at` on that is neither an option of the command nor an option's value.
std::size_t end_of_options(const CLI::App& command, const std::vector<std::string>& words,
                           std::size_t at) {
  while (at < words.size() && words[at].starts_with('-') && words[at] != "--") {
    const std::string name = words[at] == "-np" ? "--np" : words[at];
    const CLI::Option* option = command.get_option_no_throw(name);
    at += option != nullptr && option->get_items_expected_max() > 0 ? 2 : 1;
  }
  return std::min(at, words.size());
}

// What follows a command that starts another program is that program's.
void hold_program(const CLI::App& app, std::vector<std::string>& words) {
  const std::size_t command = end_of_options(app, words, 0);
  if (command == words.size()) return;
  const auto chosen = app.get_subcommands([&](const CLI::App* each) {
    return each->get_name() == words[command] && each->get_prefix_command();
  });
  if (chosen.empty()) return;
  for (auto at = end_of_options(*chosen.front(), words, command + 1); at < words.size(); ++at)
    if (words[at].starts_with('-')) words[at].insert(0, 1, kHeld);
}

// Of a command's words CLI11 leaves the -- that ends its options.
std::vector<std::string> words_of_nobody(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) return app.remaining(true);
  if (chosen.front()->get_prefix_command()) return app.remaining(false);
  auto words = app.remaining(true);
  const auto dashes = std::ranges::find(words, "--");
  if (dashes != words.end()) words.erase(dashes);
  return words;
}

ExitCode run_parsed(CLI::App& app, const std::vector<std::string>& arguments, Context& context) {
  const auto words = words_of_nobody(app);
  if (!words.empty()) return report(context, unknown_words(app, words, arguments));
  if (context.action) return context.action();
  if (context.log == LogFormat::kJson)
    return report(context, fail(ErrorCode::kInvalid, "no command; `muster --help` lists them"));
  context.err << app.help();
  return ExitCode::kUsage;
}

ExitCode leave(const CLI::App& app, const CLI::ParseError& error, Context& context) {
  const int code = app.exit(error, context.out, context.err);
  return code == 0 ? ExitCode::kDone : ExitCode::kUsage;
}

// CLI11 asks for options before it complains of strange words; people want it the other way round.
void accept_extras(CLI::App& app) {
  app.allow_extras();
  for (auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    accept_extras(*command);
  }
}

bool asks_for_help(const CLI::ParseError& error) {
  return error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
}

}  // namespace

void add_log_option(CLI::App& app, Context& context) {
  app.add_option_function<std::string>(
         "--log",
         [&context](const std::string& word) {
           context.log = word == "json" ? LogFormat::kJson : LogFormat::kText;
         },
         "Lines for people, or one JSON object a line; with every command")
      ->check([](const std::string& word) {
        if (word == "text" || word == "json") return std::string();
        return fmt::format("expected text or json, found `{}`", word);
      })
      ->type_name("text|json");
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

Error unknown_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const auto* command : commands_of(app)) names.push_back(command->get_name());
  const std::vector<std::string_view> known(names.begin(), names.end());
  const auto near = nearest(word, known);
  const std::string path = path_of(app);
  const std::string hint = near.empty() ? fmt::format("`{} --help` lists the commands", path)
                                        : fmt::format("did you mean `{} {}`?", path, near);
  const std::string before = app.get_parent() ? app.get_name() + " " : "";
  return fail(ErrorCode::kInvalid, fmt::format("unknown command `{}{}`; {}", before, word, hint));
}

CLI::App& add_command(CLI::App& app, const std::string& name, const std::string& summary,
                      const std::vector<std::string>& examples) {
  auto* command = app.add_subcommand(name, summary);
  const CLI::App* program = &app;
  while (program->get_parent()) program = program->get_parent();
  std::string text = "With every command: --log text|json\n\nExamples:\n";
  for (const auto& example : examples) text += "  " + called(example, program->get_name()) + "\n";
  command->footer(text);
  return *command;
}

std::string check_not_negative(const std::string& word) {
  return word.starts_with('-') ? fmt::format("expected 0 or more, found `{}`", word) : "";
}

void starts_a_program(CLI::App& command) {
  command.fallthrough(false);
  command.prefix_command();
}

Result<std::vector<std::string>> program_of(const CLI::App& command) {
  auto words = command.remaining();
  const std::string& name = command.get_name();
  if (!words.empty() && words.front().starts_with('-'))
    return fail(ErrorCode::kInvalid,
                fmt::format("[{}] unknown option `{}`; {} (the program's own follow its name)",
                            name, words.front(), nearest_option(command, words.front())));
  for (std::string& word : words)
    if (word.starts_with(kHeld)) word.erase(0, 1);
  if (!words.empty() && words.front() == "--") words.erase(words.begin());
  if (words.empty())
    return fail(ErrorCode::kInvalid,
                fmt::format("[{0}] the program is missing; see `muster {0} --help`", name));
  return words;
}

ExitCode run(const std::vector<std::string>& arguments, Context& context) {
  CLI::App app("Distributed training: one job file, any number of workers, the same result.",
               context.program.filename().string());
  add_global_options(app, context);
  add_commands(app, context);
  accept_extras(app);
  std::vector<std::string> words = arguments;
  hold_program(app, words);
  // mpirun's -np; CLI11 would read it as -n with the value p.
  std::ranges::replace(words, "-np", "--np");
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    const auto strange = words_of_nobody(app);
    const bool no_such_command = !strange.empty() && is_unknown_command(app, strange.front());
    if (asks_for_help(error) && !no_such_command) return leave(app, error, context);
    if (!strange.empty()) return report(context, unknown_words(app, strange, words));
    const CLI::App& command = innermost(app);
    return report(context, fail(ErrorCode::kInvalid,
                                fmt::format("{}; see `{} --help`", in_words(error, command),
                                            path_of(command))));
  }
  return run_parsed(app, words, context);
}

}  // namespace muster::cli
