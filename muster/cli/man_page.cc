#include "muster/cli/man_page.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <string_view>

#include "muster/app/version/version.h"
#include "muster/cli/application.h"
#include "muster/cli/help_text.h"

namespace muster::cli {
namespace {

// As text of a page: no letter of it is a command of roff's.
std::string roff(std::string_view text) {
  std::string quoted;
  bool begins = true;  // a line
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) quoted += "\\&";
    begins = c == '\n';
    if (c == '\\')
      quoted += "\\e";
    else if (c == '-')
      quoted += "\\-";
    else
      quoted += c;
  }
  return quoted;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

// A literal block, line by line.
std::string as_it_is(const std::string& text) { return ".nf\n" + roff(text) + "\n.fi\n"; }

std::string option_entry(const CLI::Option& option) {
  std::string type = option.get_type_name();
  if (option.get_items_expected_max() == 0) type.clear();
  std::string names = plain_names(option.get_name(!option.nonpositional(), true));
  std::ranges::replace(names, ',', ' ');
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(names),
                     type.empty() ? "" : fmt::format(" \\fI{}\\fR", roff(type)),
                     roff(option.get_description()));
}

// The command, and those below it.
std::string command_entry(const CLI::App& command, const std::string& way) {
  const std::string name = way + " " + command.get_name();
  std::string text = fmt::format(".SS \"{}\"\n{}\n", roff(name), roff(command.get_description()));
  for (const CLI::Option* option : command.get_options())
    if (option->get_name() != "--help" && !option->get_group().empty())
      text += option_entry(*option);
  const std::string footer = command.get_footer();
  if (const auto examples = footer.find("Examples:"); examples != std::string::npos)
    text += ".PP\n" + as_it_is(footer.substr(examples));
  for (const CLI::App* below : commands_of(command)) text += command_entry(*below, name);
  return text;
}

constexpr std::string_view kEnd = R"(.SH EXIT STATUS
.TP
.B 0
done
.TP
.B 1
the training failed: a worker died, or a bug
.TP
.B 2
the command line or the job file is wrong
.TP
.B 3
the machine lacks something: a port, a device, disk space, data
.TP
.B 4
numbers went wrong: NaN, divergence
.TP
.B 128 + N
ended by signal N, with a checkpoint
.SH ENVIRONMENT
.TP
.BI MUSTER_ FIELD
a value for a field of the job, as MUSTER_TRAINING_EPOCHS
.TP
.B MUSTER_CREDENTIALS
what processes of a job prove themselves with
.TP
.B MUSTER_JOIN_TIMEOUT
how long ranks that another launcher has started wait for each other, as 60s
.TP
.B MUSTER_LOCAL_ADDR
an address of this host at which others reach its workers, where the one that is found is another
.TP
.B MUSTER_MPI
a module of one's own for another MPI than those that muster knows
.TP
.BR NO_COLOR ", " CI ", " TERM=dumb
plain output
)";

}  // namespace

std::string man_page(const CLI::App& app) {
  const std::string& name = app.get_name();
  std::string text = fmt::format(
      ".TH \"{0}\" 1 \"\" \"muster {1}\" \"\"\n.SH NAME\n{2} \\- {3}\n.SH SYNOPSIS\n"
      ".B {2}\n.I COMMAND\n.RI [ OPTIONS ]\n.SH OPTIONS\n",
      roff(upper(name)), app::version(), roff(name), roff(app.get_description()));
  for (const CLI::Option* option : app.get_options()) text += option_entry(*option);
  text += ".SH COMMANDS\n";
  for (const CLI::App* command : commands_of(app)) text += command_entry(*command, name);
  return text + std::string(kEnd);
}

}  // namespace muster::cli
