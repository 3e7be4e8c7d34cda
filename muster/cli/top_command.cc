#include "muster/cli/top_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "muster/base/pause.h"
#include "muster/base/units.h"
#include "muster/cli/application.h"
#include "muster/cli/find_run.h"
#include "muster/cli/json_line.h"
#include "muster/cli/run_json.h"
#include "muster/cli/top_view.h"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TopArguments {
  RunArguments run;
  std::string every = "1s";
  bool json = false;
};

TopView look(const observe::RunFolder& folder, Files& files) {
  TopView view{look_at(files, folder), {}};
  if (view.run.state != observe::RunState::kRunning) return view;
  if (const auto text = files.read(folder.live()))
    view.workers = app::live_workers_from_json(*text).value_or(std::vector<app::LiveWorker>{});
  return view;
}

Json top_json(const TopView& view) {
  Json object = to_json(view.run);
  object["members"] = Json::parse(app::to_json(view.workers)).at("workers");
  object["slow"] = slow_workers(view);
  return object;
}

// Over what was drawn before, `above` lines of it; how many there are now.
std::ptrdiff_t redraw(const std::string& text, std::ptrdiff_t above, Context& context) {
  if (above > 0) context.out << fmt::format("\x1b[{}A", above);
  std::string lines;
  for (const char c : text) lines += c == '\n' ? std::string("\x1b[K\n") : std::string(1, c);
  context.out << "\r" << lines << "\x1b[J" << std::flush;
  return std::ranges::count(text, '\n');
}

// Until the run has ended, or whoever looks has seen enough (Ctrl-C).
void watch(const observe::RunFolder& folder, Duration every, Context& context) {
  std::ptrdiff_t drawn = 0;
  while (context.out) {
    const TopView view = look(folder, context.files);
    // The cursor stands below what was drawn, and goes up to no line that has left the terminal.
    const TopSize size{context.out_width - 1, context.out_height - 1};
    drawn = redraw(top_text(view, size), drawn, context);
    if (view.run.state != observe::RunState::kRunning) return;
    pause(context.clock, every);
  }
}

Status top(const TopArguments& arguments, Context& context) {
  const auto every = parse_duration(arguments.every);
  if (!every) return with_context(every.error(), "--every");
  MUSTER_ASSIGN(const auto folder, find_run(arguments.run, context));
  if (context.answers_json(arguments.json)) {
    context.out << json_line(top_json(look(folder, context.files)));
  } else if (context.redraws(context.out_is_terminal)) {
    watch(folder, std::max<Duration>(*every, std::chrono::milliseconds(100)), context);
  } else {
    context.out << top_text(look(folder, context.files), {.width = context.out_width});
  }
  return ok();
}

}  // namespace

void add_top_command(CLI::App& app, Context& context) {
  CLI::App& command =
      add_command(app, "top", "Watch a run: rate, phases, memory of each worker, who is slow",
                  {"muster top fashion", "muster top 3f09a1 --every 5s"});
  const auto arguments = std::make_shared<TopArguments>();
  add_run_arguments(command, arguments->run);
  command
      .add_option("--every", arguments->every, "How often it is drawn on a terminal; by default 1s")
      ->type_name("DURATION");
  command.add_flag("--json", arguments->json, "Answer in JSON, once");
  command.callback([arguments, &context] {
    context.action = [arguments, &context] { return conclude(context, top(*arguments, context)); };
  });
}

}  // namespace muster::cli
