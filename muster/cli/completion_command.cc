#include "muster/cli/completion_command.h"

#include <fmt/format.h>

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

#include "muster/base/shell_words.h"
#include "muster/cli/application.h"
#include "muster/job/fields.h"

namespace muster::cli {
namespace {

constexpr std::string_view kLog = "--log";  // with every command

// What a shell's list of words holds.
template <typename Words>
std::string listed(const Words& words) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : " ") + shell_quoted(word);
  return text;
}

std::vector<std::string> field_words(const job::Fields& fields) {
  std::vector<std::string> words;
  for (const auto& field : fields.all()) words.push_back(field.name + "=");
  return words;
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
std::string cases_of_options(const CLI::App& app) {
  Choices choices;
  add_choices(app, choices);
  std::string cases;
  for (const auto& [option, words] : choices)
    cases += fmt::format("    {}) offered=({}) files=0; return ;;\n", option, listed(words));
  return cases;
}

// Likewise for each field whose value is one of a few words, or a text, which may be a path.
std::string cases_of_fields(const job::Fields& fields) {
  std::string cases;
  for (const auto& field : fields.all()) {
    std::string offers;
    if (!field.choices.empty()) offers = fmt::format("offered=({})", listed(field.choices));
    if (field.type == job::FieldType::kBoolean) offers = "offered=(true false)";
    if (field.type == job::FieldType::kText) offers = "files=1";
    if (!offers.empty()) cases += fmt::format("        {}) {} ;;\n", field.name, offers);
  }
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
    cases += fmt::format("      \"{}\") way=\"$longer\" files={} runs={} offered=({}) ;;\n", path,
                         takes_files(*command, fields) ? 1 : 0, takes_runs(*command) ? 1 : 0,
                         listed(words_after(*command, fields)));
    cases += cases_below(*command, path + " ", fields);
  }
  return cases;
}

// The same words for bash and zsh, where `path` and other names are the shell's own; how they are
// completed, with files, blanks and quotes, is each shell's own matter.
std::string offers_script(const CLI::App& app, const job::Fields& fields) {
  return fmt::format(
      R"sh(# What may stand at the end of a line: _{name}_offers WORD PROGRAM BEFORE… sets `offered`, whether
# `files` may, and `prefix`: what of WORD all these stand behind.
_{name}_offers() {{
  local word="$1" program="$2" option="" way="" longer part runs=0
  shift 2
  offered=({top}) files=0 prefix=""
  for part in "$@"; do
    option="$part"
    longer="${{way:+$way }}$part"
    case "$longer" in
{cases}    esac
  done
  if [[ "$word" == --*=* ]]; then
    option="${{word%%=*}}" prefix="${{word%%=*}}=" word="${{word#*=}}"
    offered=() runs=0
  fi
  case "$option" in
    --set|--where)
      offered=({fields}) files=0
      [[ "$word" == *=* ]] || return 0
      prefix+="${{word%%=*}}=" offered=()
      case "${{word%%=*}}" in
{values}      esac
      return ;;
{options}  esac
  if [[ "$word" == -* ]]; then
    files=0
  elif ((runs)); then
    # Jobs, for the newest run of each, ids, and the newest of all.
    offered+=($("$program" runs 2>/dev/null | awk 'NR > 1 {{ print $1; print $2; print "latest" }}' | sort -u))
  fi
}}
)sh",
      fmt::arg("name", app.get_name()), fmt::arg("top", listed(words_after(app, fields))),
      fmt::arg("cases", cases_below(app, "", fields)),
      fmt::arg("fields", listed(field_words(fields))), fmt::arg("values", cases_of_fields(fields)),
      fmt::arg("options", cases_of_options(app)));
}

std::string bash_script(const CLI::App& app, const job::Fields& fields) {
  return fmt::format(
      R"bash(# bash completion for {0}; load with: source <({0} completion bash)
{1}
_{0}() {{
  local word="" head="" rest="$COMP_LINE" at part offered files prefix before=()
  # COMP_WORDS is cut at every `=` and `:` too; `head` is what stands before the last cut.
  for ((at = 0; at <= COMP_CWORD; ++at)); do
    part="${{COMP_WORDS[at]}}"
    if ((at > 0)) && [[ -n "$COMP_LINE" && "$rest" != [[:blank:]]* ]]; then
      head="$word" word+="$part"
    else
      ((at == 0)) || before+=("$word")
      head="" word="$part"
    fi
    rest="${{rest#*"$part"}}"
  done
  [[ -z "$part" || "$part" == *[^=:]* ]] || head="$word"
  case "$word" in
    [\"\']*) word="${{word:1}}" ;;
    *\\*) IFS= read word <<<"$word" ;;
  esac
  _{0}_offers "$word" "${{COMP_WORDS[0]}}" "${{before[@]:1}}"
  COMPREPLY=()
  for part in "${{offered[@]}}"; do
    part="$prefix$part"
    [[ "$part" != "$word"* ]] || COMPREPLY+=("${{part#"$head"}}")
  done
  [[ "${{COMPREPLY[*]}}" != *= ]] || compopt -o nospace 2>/dev/null
  ((files)) || return 0
  while IFS= read -r part; do
    part="$prefix$part"
    COMPREPLY+=("${{part#"$head"}}")
    compopt -o filenames 2>/dev/null
  done < <(compgen -f -- "${{word#"$prefix"}}")
}}
complete -F _{0} {0}
)bash",
      app.get_name(), offers_script(app, fields));
}

std::string zsh_script(const CLI::App& app, const job::Fields& fields) {
  return fmt::format(
      R"zsh(#compdef {0}
# load with: source <({0} completion zsh), behind compinit; or save as _{0} in a folder of fpath
{1}
_{0}() {{
  local -a offered open
  local files prefix found=1
  _{0}_offers "${{(Q)PREFIX}}" "${{(Q)words[1]}}" "${{(@Q)words[2,CURRENT-1]}}"
  [[ -z "$prefix" ]] || compset -P "${{(b)prefix}}"
  open=("${{(@M)offered:#*=}}") offered=("${{(@)offered:#*=}}")
  (($#open)) && compadd -S '' -a open && found=0
  (($#offered)) && compadd -a offered && found=0
  ((files)) && _files && found=0
  return found
}}
# Out of such a folder this is read at the first TAB, which waits for words.
if [[ "${{funcstack[1]}}" == "_{0}" ]]; then
  _{0}
else
  compdef _{0} {0}
fi
)zsh",
      app.get_name(), offers_script(app, fields));
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
