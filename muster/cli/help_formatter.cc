#include "muster/cli/help_formatter.h"

#include <set>
#include <sstream>
#include <utility>

#include "muster/base/text_width.h"
#include "muster/cli/help_text.h"

namespace muster::cli {
namespace {

constexpr std::size_t kIndentOfMore = 6;  // what a line goes on with

// Aliases may stand in several lines.
std::string breakable(std::string names) {
  for (auto at = names.find(','); at != names.npos; at = names.find(',', at + 2))
    names.replace(at, 1, ", ");
  return names;
}

// A command in a shell goes on behind a backslash.
std::string wrapped_command(const std::string& command, std::size_t width) {
  std::string text = wrapped_behind(command, width - 2, kIndentOfMore);
  for (auto at = text.find('\n'); at != text.npos; at = text.find('\n', at + 3))
    text.replace(at, 1, " \\\n");
  return text;
}

}  // namespace

HelpFormatter::HelpFormatter(int columns) : width_(help_width(columns)) {
  column_width(help_column(width_));
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return wrapped_behind(CLI::Formatter::make_description(app), width_, 0);
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  std::string usage = CLI::Formatter::make_usage(app, std::move(name));
  if (app->get_prefix_command()) usage.insert(usage.find_last_not_of('\n') + 1, " COMMAND…");
  return wrapped_behind(usage, width_, kIndentOfMore);
}

// CLI11 names what an option excludes last, in the order of addresses, which is another each time.
std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  std::string text = CLI::Formatter::make_option_opts(option);
  const std::string label = " " + get_label("Excludes") + ":";
  const auto begin = text.find(label);
  if (begin == text.npos) return text;
  std::set<std::string> names;
  for (const CLI::Option* other : option->get_excludes()) names.insert(other->get_name());
  text.resize(begin + label.size());
  for (const std::string& name : names) text += " " + name;
  return text;
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string name = plain_names(make_option_name(option, is_positional));
  std::string more = make_option_opts(option);
  if (kHelpIndent + display_width(name + more) > width_) name = breakable(std::move(name));
  return help_entry(name + more, make_option_desc(option), width_) + "\n";
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return help_entry(command->get_display_name(true), command->get_description(), width_) + "\n";
}

// An example is indented already.
std::string HelpFormatter::footer_line(const std::string& line) const {
  if (display_width(line) <= width_) return line;
  return line.starts_with(' ') ? std::string(kHelpIndent, ' ') + wrapped_command(line, width_)
                               : wrapped_behind(line, width_, 0);
}

// CLI11 ends a group with an empty line and begins the next with another.
std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
  for (auto at = text.find("\n\n\n"); at != text.npos; at = text.find("\n\n\n", at))
    text.erase(at, 1);
  return text;
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  std::istringstream lines(CLI::Formatter::make_footer(app));
  std::string text;
  for (std::string line; std::getline(lines, line);) text += footer_line(line) + "\n";
  return text;
}

}  // namespace muster::cli
