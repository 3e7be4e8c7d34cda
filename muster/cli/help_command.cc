#include "muster/cli/help_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>

#include "muster/base/units.h"
#include "muster/cli/application.h"
#include "muster/cli/man_page.h"
#include "muster/job/reference.h"

namespace muster::cli {
namespace {

struct HelpArguments {
  std::string field;
  bool schema = false;
  bool markdown = false;
};

Error unknown_field(const std::string& name, const job::Fields& fields) {
  std::vector<std::string_view> known;
  for (const auto& section : fields.sections()) known.push_back(section.name);
  for (const auto& field : fields.all()) {
    known.push_back(field.name);
    if (field.key() == name) {
      return fail(ErrorCode::kInvalid,
                  fmt::format("no field `{}` of a job; did you mean `{}`?", name, field.name));
    }
  }
  const auto near = nearest(name, known);
  return fail(ErrorCode::kInvalid,
              fmt::format("no field `{}` of a job; {}", name,
                          near.empty() ? "`muster help job` lists them"
                                       : fmt::format("did you mean `{}`?", near)));
}

ExitCode help_job(const HelpArguments& arguments, Context& context) {
  const job::Fields& fields = *context.fields;
  if (arguments.schema) {
    context.out << job::json_schema(fields);
  } else if (arguments.markdown) {
    context.out << job::markdown(fields);
  } else if (arguments.field.empty()) {
    context.out << job::help_all(fields);
  } else if (const auto* field = fields.find(arguments.field)) {
    context.out << job::help_field(*field);
  } else if (const auto* section = fields.find_section(arguments.field)) {
    context.out << job::help_section(*section, fields);
  } else {
    return report(context, unknown_field(arguments.field, fields));
  }
  return ExitCode::kDone;
}

ExitCode help_command(CLI::App& app, const std::string& name, Context& context) {
  if (name.empty()) {
    // app.help() would explain the command that was chosen, this one.
    context.out << app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
    return ExitCode::kDone;
  }
  const auto found =
      app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  if (!found.empty()) {
    context.out << found.front()->help(app.get_name());
    return ExitCode::kDone;
  }
  return report(context, unknown_command(app, name));
}

}  // namespace

void add_help_command(CLI::App& app, Context& context) {
  auto& help = add_command(app, "help", "Explain a command or the job file",
                           {"muster help train", "muster help job training.epochs"});
  auto name = std::make_shared<std::string>();
  help.add_option("COMMAND", *name, "A command")->type_name("");
  help.callback([name, &app, &help, &context] {
    if (!help.get_subcommands().empty()) return;
    context.action = [name, &app, &context] { return help_command(app, *name, context); };
  });
  auto& topic =
      add_command(help, "job", "Fields of the job file",
                  {"muster help job optimizer", "muster help job --schema > job.schema.json"});
  auto arguments = std::make_shared<HelpArguments>();
  topic.add_option("FIELD", arguments->field, "A field or a group of fields")->type_name("");
  topic.add_flag("--schema", arguments->schema, "JSON Schema, for editors");
  topic.add_flag("--markdown", arguments->markdown, "The page docs/job.md");
  topic.callback([arguments, &context] {
    context.action = [arguments, &context] { return help_job(*arguments, context); };
  });
  auto& page = add_command(
      help, "man", "The manual page, for man(1)",
      {"muster help man | man -l -", "muster help man > ~/.local/share/man/man1/muster.1"});
  page.callback([&app, &context] {
    context.action = [&app, &context] {
      context.out << man_page(app);
      return ExitCode::kDone;
    };
  });
}

}  // namespace muster::cli
