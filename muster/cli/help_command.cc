#include "muster/cli/help_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>

#include "muster/base/units.h"
#include "muster/cli/application.h"
#include "muster/cli/help_text.h"
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
  const std::size_t width = help_width(context.out_width);
  if (arguments.schema) {
    context.out << job::json_schema(fields);
  } else if (arguments.markdown) {
    context.out << job::markdown(fields);
  } else if (arguments.field.empty()) {
    context.out << wrapped_fields(job::help_all(fields), width);
  } else if (const auto* field = fields.find(arguments.field)) {
    context.out << wrapped_facts(job::help_field(*field), width);
  } else if (const auto* section = fields.find_section(arguments.field)) {
    context.out << wrapped_fields(job::help_section(*section, fields), width);
  } else {
    return report(context, unknown_field(arguments.field, fields));
  }
  return ExitCode::kDone;
}

using Words = std::vector<std::string>;

// Besides commands, `help` knows topics of its own; of two as near it is the command.
Error unknown_topic(const CLI::App& app, const CLI::App& help, const std::string& word) {
  std::vector<std::string> names, topics;
  for (const auto* command : commands_of(app)) names.push_back(command->get_name());
  for (const auto* topic : commands_of(help)) topics.push_back(topic->get_name());
  std::vector<std::string_view> known(names.begin(), names.end());
  known.insert(known.end(), topics.begin(), topics.end());
  const auto near = nearest(word, known);
  if (std::ranges::find(topics, near) == topics.end()) return unknown_command(app, word);
  return fail(ErrorCode::kInvalid, fmt::format("unknown command `{}`; did you mean `{} {} {}`?",
                                               word, app.get_name(), help.get_name(), near));
}

ExitCode help_command(CLI::App& app, const CLI::App& help, const Words& words, Context& context) {
  if (words.empty()) {
    // app.help() would explain the command that was chosen, this one.
    context.out << app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
    return ExitCode::kDone;
  }
  CLI::App* command = &app;
  std::string path;
  for (const std::string& word : words) {
    const auto found =
        command->get_subcommands([&](const CLI::App* one) { return one->get_name() == word; });
    if (found.empty())
      return report(context, command == &app ? unknown_topic(app, help, word)
                                             : unknown_command(*command, word));
    path += (path.empty() ? "" : " ") + command->get_name();
    command = found.front();
  }
  context.out << command->help(path);
  return ExitCode::kDone;
}

// `action`, unless words are left that it does not take.
std::function<ExitCode()> without(const std::shared_ptr<Words>& rest, Context& context,
                                  std::function<ExitCode()> action) {
  return [rest, &context, action = std::move(action)] {
    if (rest->empty()) return action();
    return report(
        context, fail(ErrorCode::kInvalid, fmt::format("unexpected argument `{}`", rest->front())));
  };
}

}  // namespace

void add_help_command(CLI::App& app, Context& context) {
  auto& help = add_command(app, "help", "Explain a command or the job file",
                           {"muster help train", "muster help job training.epochs"});
  auto words = std::make_shared<Words>();
  help.add_option("COMMAND", *words, "A command, such as `train` or `checkpoint list`")
      ->type_name("");
  help.callback([words, &app, &help, &context] {
    if (!help.get_subcommands().empty()) return;
    context.action = [words, &app, &help, &context] {
      return help_command(app, help, *words, context);
    };
  });
  auto& topic =
      add_command(help, "job", "Fields of the job file",
                  {"muster help job optimizer", "muster help job --schema > job.schema.json"});
  auto arguments = std::make_shared<HelpArguments>();
  topic.add_option("FIELD", arguments->field, "A field or a group of fields")->type_name("");
  topic.add_flag("--schema", arguments->schema, "JSON Schema, for editors");
  topic.add_flag("--markdown", arguments->markdown, "The page docs/job.md");
  topic.callback([words, arguments, &context] {
    context.action =
        without(words, context, [arguments, &context] { return help_job(*arguments, context); });
  });
  auto& page = add_command(
      help, "man", "The manual page, for man(1)",
      {"muster help man | man -l -", "muster help man > ~/.local/share/man/man1/muster.1"});
  page.callback([words, &app, &context] {
    context.action = without(words, context, [&app, &context] {
      context.out << man_page(app);
      return ExitCode::kDone;
    });
  });
}

}  // namespace muster::cli
