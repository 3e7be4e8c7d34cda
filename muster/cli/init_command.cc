#include "muster/cli/init_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>

#include "muster/base/shell_words.h"
#include "muster/cli/application.h"
#include "muster/cli/starter_job.h"
#include "muster/job/load.h"

namespace muster::cli {
namespace {

struct InitArguments {
  std::string data;
  std::string target;
  std::string output = "job.yaml";
};

// What muster writes it takes.
Status check_written(const std::string& text, const Path& path) {
  const auto checked = job::check_job(text, path, {});
  if (checked.job) return ok();
  return fail(
      ErrorCode::kInternal,
      fmt::format("[init] the job that was made is not valid, which is a mistake of muster: "
                  "{}",
                  render(checked.errors)));
}

Status write_job(const InitArguments& arguments, Context& context) {
  MUSTER_ASSIGN(const app::DataFound found,
                app::look_at_data(context.files, arguments.data, arguments.target));
  MUSTER_ASSIGN(const std::string text, starter_job(found, arguments.data));
  MUSTER_TRY(check_written(text, arguments.output));
  if (arguments.output == "-") {
    context.out << text;
    return ok();
  }
  if (context.files.exists(arguments.output))
    return fail(ErrorCode::kInvalid,
                fmt::format("[init] {} is there already and is left as it is; -o names another "
                            "file, -o - prints it",
                            arguments.output));
  if (const Status written = write_atomically(context.files, arguments.output, text); !written)
    return with_context(written.error(),
                        fmt::format("[init] {} cannot be written; -o names another place, whose "
                                    "folder has to be there, -o - prints the job",
                                    arguments.output));
  context.out << fmt::format("{}: a job for {}\nnext: muster train {} --workers 2\n",
                             arguments.output, describe(found), shell_quoted(arguments.output));
  return ok();
}

}  // namespace

void add_init_command(CLI::App& app, Context& context) {
  auto& command =
      add_command(app, "init", "Write a first job file for data, by looking at it",
                  {"muster init photos/             # a folder of .png or .jpg for each class",
                   "muster init patients.csv --target outcome -o patients.yaml",
                   "muster init /usr/share/datasets/fashion-mnist", "muster init book.txt"});
  auto arguments = std::make_shared<InitArguments>();
  command
      .add_option("DATA", arguments->data,
                  "A folder of pictures or of IDX files, a CSV or a text file")
      ->type_name("")
      ->required();
  command
      .add_option("--target", arguments->target,
                  "The column of a table that is to be learnt; by default guessed")
      ->type_name("COLUMN");
  command.add_option("-o,--output", arguments->output, "The job file; - for standard output")
      ->type_name("FILE")
      ->capture_default_str();
  command.callback([arguments, &context] {
    context.action = [arguments, &context] {
      const Status written = write_job(*arguments, context);
      return written ? ExitCode::kDone : report(context, written.error());
    };
  });
}

}  // namespace muster::cli
