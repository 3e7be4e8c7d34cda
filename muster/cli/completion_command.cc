#include "muster/cli/completion_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>

#include "muster/cli/application.h"
#include "muster/job/fields.h"

namespace muster::cli {
namespace {

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

// What may follow a command: its own commands, its arguments, its options.
std::vector<std::string> words_after(const CLI::App& command, const job::Fields& fields) {
  std::vector<std::string> words = arguments_of(command, fields);
  for (const auto* inner : commands_of(command)) words.push_back(inner->get_name());
  for (const auto* option : command.get_options()) {
    for (const auto& name : option->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

bool takes_files(const CLI::App& command, const job::Fields& fields) {
  return commands_of(command).empty() && arguments_of(command, fields).empty() &&
         command.get_name() != "doctor";
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
  if [[ "$before" == --set ]]; then
    compopt -o nospace 2>/dev/null
    COMPREPLY=($(compgen -W "{fields}" -- "$word"))
    return
  fi
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
      fmt::arg("cases", cases_below(app, "", fields)));
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
