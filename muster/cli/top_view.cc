#include "muster/cli/top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "muster/base/text_width.h"
#include "muster/base/units.h"
#include "muster/cli/run_status.h"
#include "muster/observe/number_text.h"
#include "muster/observe/phase_timer.h"
#include "muster/observe/table_text.h"

namespace muster::cli {
namespace {

using app::LiveWorker;

// So much more of its time than others a worker waits for somebody.
constexpr double kWaitsMore = 0.3;

double share(const LiveWorker& worker, app::Activity activity) {
  return worker.shares[static_cast<std::size_t>(activity)];
}

// Of observe::Phase, in its order: all of them stand in a line of 80 columns.
constexpr std::array<std::string_view, observe::kPhaseCount> kShortPhases = {
    "data", "forward", "backward", "comm", "update", "save"};

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

// What stands side by side, in as many lines as it takes; a part stays whole. What `between` has
// before its blank, as a comma, ends the line.
std::string in_lines(const std::vector<std::string>& parts, std::string_view between,
                     std::size_t width) {
  constexpr std::string_view kIndent = "  ";
  const std::string_view end = between.substr(0, between.find(' '));
  std::string text;
  std::size_t taken = 0;  // of the last line
  for (const std::string& part : parts) {
    const std::size_t columns = display_width(part);
    const std::size_t then = &part == &parts.back() ? 0 : end.size();
    if (taken == 0) {
      text = part;
      taken = columns;
    } else if (taken + between.size() + columns + then <= width) {
      text.append(between).append(part);
      taken += between.size() + columns;
    } else {
      text.append(end).append("\n").append(kIndent).append(part);
      taken = kIndent.size() + columns;
    }
  }
  return text;
}

// A long name of a job gives up its end; the id is enough to say which run it is.
std::string name_of_run(const observe::RunName& name, std::size_t width) {
  constexpr std::size_t kLeastName = 4;
  const std::size_t others = display_width(name.id) + 1;
  if (display_width(name.job) + others <= width || width < others + kLeastName)
    return fmt::format("{} {}", name.job, name.id);
  return fmt::format("{}… {}", cut_to_width(name.job, width - others - 1), name.id);
}

std::string head_line(const TopView& view, std::size_t width) {
  const observe::RunInfo& run = view.run;
  std::string step = "step " + observe::grouped(to_int(last_step(run.outline)));
  const auto& started = run.outline.started;
  if (started && started->total_steps > 0) step += " of " + observe::grouped(started->total_steps);
  std::vector<std::string> parts = {name_of_run(run.name, width), std::string(to_string(run.state)),
                                    std::move(step)};
  const auto& row = run.outline.last_step;
  const auto loss = row ? row->find(observe::metric::kTrainLoss) : std::nullopt;
  if (loss) parts.push_back(fmt::format("loss {:.4g}", *loss));
  return in_lines(parts, "  ", width);
}

// "1,234 samples/s, 100 ms a step, 1:00 left"
std::string rate_line(const observe::RunInfo& run, std::size_t width) {
  constexpr std::string_view kBetween = ", ";
  const std::string text = rate_text_of(run);
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(kBetween, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + kBetween.size();
  }
  return in_lines(parts, kBetween, width);
}

// Of the first rank, as the last step measured it.
std::string phases_line(const observe::RunInfo& run, std::size_t width) {
  const auto& row = run.outline.last_step;
  const auto step = row ? row->find(observe::metric::kStepTime) : std::nullopt;
  if (!step || !(*step > 0)) return {};
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < observe::kPhaseCount; ++i) {
    const auto phase = static_cast<observe::Phase>(i);
    const auto took = row->find(observe::metric_name(phase));
    if (!took) continue;
    parts.push_back(fmt::format("{}{} {}", parts.empty() ? "step: " : "", kShortPhases[i],
                                percent(*took / *step)));
  }
  return in_lines(parts, "  ", width);
}

std::vector<std::string> row_of(const LiveWorker& worker) {
  std::vector<std::string> cells = {
      worker.host,
      fmt::format("{}", worker.rank),
      fmt::format("{}", worker.worker),
      fmt::format("{}", worker.pid),
      observe::grouped(worker.step),
      worker.resident > 0 ? format_bytes(worker.resident) : std::string(observe::kNothing)};
  for (const double one : worker.shares) cells.push_back(percent(one));
  return cells;
}

using Lines = std::vector<std::vector<std::string>>;

// Places in a line of the table, what one needs most first: who waits, or is behind, and how much
// memory is left. Where it is, which rank it has just now, and the rest are told by `muster debug`
// as well.
constexpr std::array<std::size_t, 6 + app::kActivities> kColumnsByNeed = {2, 4, 8, 7, 5, 0,
                                                                          6, 1, 3, 9, 10};

// Those that the terminal has room for, in their order; one at least.
std::vector<std::size_t> columns_that_fit(const Lines& lines, std::size_t width) {
  constexpr std::size_t kBetween = 2;
  std::vector<std::size_t> shown;
  std::size_t taken = 0;
  for (const std::size_t column : kColumnsByNeed) {
    std::size_t needs = shown.empty() ? 0 : kBetween;
    std::size_t widest = 0;
    for (const auto& line : lines) widest = std::max(widest, display_width(line[column]));
    needs += widest;
    if (!shown.empty() && taken + needs > width) continue;
    shown.push_back(column);
    taken += needs;
  }
  std::ranges::sort(shown);
  return shown;
}

// Numbers are shown whole or not at all.
std::string workers_table(std::vector<LiveWorker> workers, std::size_t width) {
  if (workers.empty()) return {};
  std::ranges::sort(workers, {}, &LiveWorker::rank);
  Lines lines = {{"host", "rank", "worker", "pid", "step", "memory"}};
  for (const std::string_view name : app::kActivityNames) lines.front().emplace_back(name);
  for (const LiveWorker& worker : workers) lines.push_back(row_of(worker));
  const auto shown = columns_that_fit(lines, width);
  Lines fitting;
  for (const auto& line : lines) {
    auto& cells = fitting.emplace_back();
    for (const std::size_t column : shown) cells.push_back(line[column]);
  }
  return observe::aligned(fitting, shown.front() == 0 ? 1 : 0);
}

// Sentences go on in the next line.
std::string wrapped_entry(std::string_view text, std::size_t width) {
  constexpr std::size_t kIndent = 2;
  return wrapped_behind(text, width, kIndent);
}

// Without the words that are beyond the width; of one that has no room at all whole characters.
std::string_view cut_line(std::string_view line, std::size_t width) {
  const std::string_view room = cut_to_width(line, width);
  if (room.size() == line.size() || line[room.size()] == ' ') return room;
  const auto blank = room.rfind(' ');
  const bool has_word = blank != room.npos && room.find_first_not_of(' ') < blank;
  return has_word ? room.substr(0, room.find_last_not_of(' ', blank) + 1) : room;
}

// Without what is beyond the size.
std::string cut(std::string_view text, std::size_t width, int height) {
  std::string lines;
  for (int line_count = 0; !text.empty() && line_count < height; ++line_count) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    lines.append(cut_line(line, width)) += "\n";
  }
  return lines;
}

std::int64_t lines_of(std::string_view text) { return std::ranges::count(text, '\n'); }

// The first rows, with its head, and how many more there are, in `room` lines.
std::string shortened(const std::string& table, std::int64_t room) {
  const std::int64_t rows = lines_of(table);
  if (rows <= std::max<std::int64_t>(room, 0)) return table;
  const std::int64_t shown = std::max<std::int64_t>(room - 1, 1);
  std::size_t end = 0;
  for (std::int64_t i = 0; i < shown; ++i) end = table.find('\n', end) + 1;
  return table.substr(0, end) + fmt::format("… {} more\n", rows - shown);
}

}  // namespace

std::vector<std::string> slow_workers(const TopView& view) {
  if (!view.run.outline.slow.empty() || view.workers.size() < 2) return view.run.outline.slow;
  double most = 0;
  for (const LiveWorker& worker : view.workers)
    most = std::max(most, share(worker, app::Activity::kWait));
  std::vector<std::string> lines;
  for (const LiveWorker& worker : view.workers) {
    const double waits = share(worker, app::Activity::kWait);
    if (waits + kWaitsMore > most) continue;
    lines.push_back(
        fmt::format("worker {} waits for others {} of its time, they for it up to {}: "
                    "it is {} in step {}",
                    worker.worker, percent(waits), percent(most),
                    worker.phase.empty() ? "not begun" : worker.phase, worker.step));
  }
  return lines;
}

std::string top_text(const TopView& view, const TopSize& size) {
  const auto width = static_cast<std::size_t>(std::max(size.width, 0));
  std::string above = head_line(view, width) + "\n";
  for (const std::string& line : {rate_line(view.run, width), phases_line(view.run, width),
                                  wrapped_entry(view.run.reason, width)})
    if (!line.empty()) above += line + "\n";
  above += "\n";
  const auto slow = slow_workers(view);
  std::string below = slow.empty() ? "" : "\n";
  for (const std::string& line : slow) below += wrapped_entry("slow: " + line, width) + "\n";
  const std::int64_t room = size.height - lines_of(above) - lines_of(below);
  return cut(above + shortened(workers_table(view.workers, width), room) + below, width,
             size.height);
}

}  // namespace muster::cli
