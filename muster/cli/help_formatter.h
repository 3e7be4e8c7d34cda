#pragma once
// Help of commands in lines that fit a terminal, which CLI11's own does not wrap. One thread.

#include <CLI/CLI.hpp>
#include <string>

namespace muster::cli {

class HelpFormatter final : public CLI::Formatter {
 public:
  // Lines of at most `columns`; of the width in which people read well where a terminal is wider.
  explicit HelpFormatter(int columns);

  std::string make_description(const CLI::App* app) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_footer(const CLI::App* app) const override;

 private:
  std::string footer_line(const std::string& line) const;

  std::size_t width_;
};

}  // namespace muster::cli
