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

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// What may follow a command: its own commands and its options.
std::vector<std::string> words_after(const CLI::App& command) {
  std::vector<std::string> words;
  for (const auto* inner : commands_of(command)) words.push_back(inner->get_name());
  for (const auto* option : command.get_options()) {
    for (const auto& name : option->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

std::string field_words() {
  std::vector<std::string> words;
  for (const auto& field : job::fields()) words.push_back(field.name + "=");
  return fmt::format("{}", fmt::join(words, " "));
}

std::string field_names() {
  std::vector<std::string_view> words;
  for (const auto& field : job::fields()) words.push_back(field.name);
  return fmt::format("{}", fmt::join(words, " "));
}

std::string bash_script(const CLI::App& app) {
  std::string cases;
  for (const auto* command : commands_of(app)) {
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(),
                         fmt::join(words_after(*command), " "));
  }
  return fmt::format(R"(# bash completion for muster; load with: source <(muster completion bash)
_muster() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words
  if [[ "$before" == --set ]]; then
    compopt -o nospace 2>/dev/null
    COMPREPLY=($(compgen -W "{fields}" -- "$word"))
    return
  fi
  if [[ "${{COMP_WORDS[1]}}" == help && "${{COMP_WORDS[2]}}" == job && COMP_CWORD -eq 3 ]]; then
    COMPREPLY=($(compgen -W "{names}" -- "$word"))
    return
  fi
  words="{top}"
  if ((COMP_CWORD > 1)); then case "${{COMP_WORDS[1]}}" in
{cases}  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  if ((COMP_CWORD > 1)) && [[ "$word" != -* ]]; then COMPREPLY+=($(compgen -f -- "$word")); fi
}}
complete -o filenames -F _muster muster
)",
                     fmt::arg("fields", field_words()), fmt::arg("names", field_names()),
                     fmt::arg("top", fmt::format("{}", fmt::join(words_after(app), " "))),
                     fmt::arg("cases", cases));
}

std::string zsh_script(const CLI::App& app) {
  return "#compdef muster\n# load with: source <(muster completion zsh)\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_script(app);
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
      context.out << (*shell == "bash" ? bash_script(app) : zsh_script(app));
      return ExitCode::kDone;
    };
  });
}

}  // namespace muster::cli
