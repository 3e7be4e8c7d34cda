#include "muster/cli/completion_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "muster/cli/application.h"
#include "muster/job/fields.h"

namespace muster::cli {
namespace {

constexpr std::string_view kLog = "--log";  // with every command

std::string field_words(const job::Fields& fields) {
  std::vector<std::string> words;
  for (const auto& field : fields.all()) words.push_back(field.name + "=");
  return fmt::format("{}", fmt::join(words, " "));
}

// Of a command that takes one of a few words.
std::vector<std::string> arguments_of(const CLI::App& command, const job::Fields& fields) {
  std::vector<std::string> words;
  if (command.get_name() == "completion") words = {"bash", "zsh"};
  if (command.get_name() == "help") {
    for (const auto* other : commands_of(*command.get_parent())) words.push_back(other->get_name());
  }
  if (command.get_name() == "job") {
    for (const auto& field : fields.all()) words.push_back(field.name);
  }
  return words;
}

// As the help does, which leaves out what is only accepted for the sake of other launchers' users.
bool is_shown(const CLI::Option* option) { return !option->get_group().empty(); }

// What may follow a command: its own commands, its arguments, its options.
std::vector<std::string> words_after(const CLI::App& command, const job::Fields& fields) {
  std::vector<std::string> words = arguments_of(command, fields);
  for (const auto* inner : commands_of(command)) words.push_back(inner->get_name());
  for (const auto* option : command.get_options(is_shown)) {
    for (const auto& name : option->get_lnames()) words.push_back("--" + name);
  }
  if (std::ranges::find(words, kLog) == words.end()) words.emplace_back(kLog);
  return words;
}

// An argument, or a value of an option; not where only a few words fit, or a number.
bool takes_files(const CLI::App& command, const job::Fields& fields) {
  if (!arguments_of(command, fields).empty() || command.get_name() == "doctor") return false;
  const auto options = command.get_options(is_shown);
  const bool has_arguments = std::ranges::any_of(options, &CLI::Option::get_positional);
  const bool has_values = std::ranges::any_of(
      options, [](const CLI::Option* option) { return option->get_items_expected_max() > 0; });
  return has_arguments || (commands_of(command).empty() && has_values);
}

// What may follow an option that takes one of a few words, as the name of its type has them:
// "text|json".
using Choices = std::map<std::string, std::set<std::string>>;

void add_choices(const CLI::App& command, Choices& choices) {
  for (const auto* option : command.get_options(is_shown)) {
    std::stringstream type(option->get_type_name());
    std::set<std::string> words;
    for (std::string word; std::getline(type, word, '|');) words.insert(word);
    if (words.size() < 2) continue;
    for (const auto& name : option->get_lnames())
      choices["--" + name].insert(words.begin(), words.end());
  }
  for (const auto* below : commands_of(command)) add_choices(*below, choices);
}

// A line of the script's `case` for each.
std::string cases_of_values(const CLI::App& app) {
  Choices choices;
  add_choices(app, choices);
  std::string cases;
  for (const auto& [option, words] : choices)
    cases += fmt::format("    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n",
                         option, fmt::join(words, " "));
  return cases;
}

bool takes_runs(const CLI::App& command) {
  const auto options = command.get_options();
  return std::ranges::any_of(options, [](const CLI::Option* option) {
    const std::string name = option->get_positional() ? option->get_name(true) : "";
    return name == "RUN" || name == "RUN_OR_FOLDER";
  });
}

// A line of the script's `case` for every command, named by the way to it: "checkpoint export".
std::string cases_below(const CLI::App& parent, const std::string& way, const job::Fields& fields) {
  std::string cases;
  for (const auto* command : commands_of(parent)) {
    const std::string path = way + command->get_name();
    cases += fmt::format("      \"{}\") way=\"$longer\" files={} runs={} words=\"{}\" ;;\n", path,
                         takes_files(*command, fields) ? 1 : 0, takes_runs(*command) ? 1 : 0,
                         fmt::join(words_after(*command, fields), " "));
    cases += cases_below(*command, path + " ", fields);
  }
  return cases;
}

// Also for zsh, where `path` and other names are the shell's own.
std::string bash_script(const CLI::App& app, const job::Fields& fields) {
  return fmt::format(
      R"bash(# bash completion for {name}; load with: source <({name} completion bash)
_{name}() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
  local way="" longer at files=0 runs=0 words="{top}"
  if [[ "$before" == --set || "$before" == --where ]]; then
    compopt -o nospace 2>/dev/null
    COMPREPLY=($(compgen -W "{fields}" -- "$word"))
    return
  fi
  case "$before" in
{values}  esac
  for ((at = 1; at < COMP_CWORD; ++at)); do
    longer="${{way:+$way }}${{COMP_WORDS[at]}}"
    case "$longer" in
{cases}    esac
  done
  if ((runs)) && [[ "$word" != -* ]]; then
    # Jobs, for the newest run of each, and ids.
    words+=" $("${{COMP_WORDS[0]}}" runs 2>/dev/null | awk 'NR > 1 {{ print $1, $2 }}' | tr ' ' '\n' | sort -u)"
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  if ((files)) && [[ "$word" != -* ]]; then COMPREPLY+=($(compgen -f -- "$word")); fi
}}
complete -o filenames -F _{name} {name}
)bash",
      fmt::arg("name", app.get_name()), fmt::arg("fields", field_words(fields)),
      fmt::arg("top", fmt::format("{}", fmt::join(words_after(app, fields), " "))),
      fmt::arg("values", cases_of_values(app)), fmt::arg("cases", cases_below(app, "", fields)));
}

std::string zsh_script(const CLI::App& app, const job::Fields& fields) {
  return fmt::format(
      R"zsh(#compdef {0}
# load with: source <({0} completion zsh), behind compinit; or save as _{0} in a folder of fpath
autoload -U +X bashcompinit && bashcompinit
{1}# Out of such a folder this is read at the first TAB, which waits for words.
if [[ "${{funcstack[1]}}" == "_{0}" ]]; then _bash_complete -o filenames -F _{0}; fi
)zsh",
      app.get_name(), bash_script(app, fields));
}

}  // namespace

void add_completion_command(CLI::App& app, Context& context) {
  auto& command = add_command(
      app, "completion", "Print a completion script for a shell",
      {"source <(muster completion bash)", "muster completion zsh > ~/.zsh/completions/_muster"});
  auto shell = std::make_shared<std::string>();
  command.add_option("SHELL", *shell, "bash or zsh")
      ->required()
      ->type_name("")
      ->check(CLI::IsMember({"bash", "zsh"}));
  command.callback([shell, &app, &context] {
    context.action = [shell, &app, &context] {
      context.out << (*shell == "bash" ? bash_script(app, *context.fields)
                                       : zsh_script(app, *context.fields));
      return ExitCode::kDone;
    };
  });
}

}  // namespace muster::cli
