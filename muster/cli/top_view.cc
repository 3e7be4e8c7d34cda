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

std::string head_line(const TopView& view) {
  const observe::RunInfo& run = view.run;
  std::string line =
      fmt::format("{} {}  {}  step {}", run.name.job, run.name.id, to_string(run.state),
                  observe::grouped(to_int(last_step(run.outline))));
  const auto& started = run.outline.started;
  if (started && started->total_steps > 0) line += " of " + observe::grouped(started->total_steps);
  const auto& row = run.outline.last_step;
  const auto loss = row ? row->find(observe::metric::kTrainLoss) : std::nullopt;
  if (loss) line += fmt::format("  loss {:.4g}", *loss);
  return line;
}

// Of the first rank, as the last step measured it.
std::string phases_line(const observe::RunInfo& run) {
  const auto& row = run.outline.last_step;
  const auto step = row ? row->find(observe::metric::kStepTime) : std::nullopt;
  if (!step || !(*step > 0)) return {};
  std::string line;
  for (std::size_t i = 0; i < observe::kPhaseCount; ++i) {
    const auto phase = static_cast<observe::Phase>(i);
    const auto took = row->find(observe::metric_name(phase));
    if (!took) continue;
    line += fmt::format("{}{} {}", line.empty() ? "step: " : "  ", kShortPhases[i],
                        percent(*took / *step));
  }
  return line;
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

std::string workers_table(std::vector<LiveWorker> workers) {
  if (workers.empty()) return {};
  std::ranges::sort(workers, {}, &LiveWorker::rank);
  std::vector<std::vector<std::string>> lines = {
      {"host", "rank", "worker", "pid", "step", "memory"}};
  for (const std::string_view name : app::kActivityNames) lines.front().emplace_back(name);
  for (const LiveWorker& worker : workers) lines.push_back(row_of(worker));
  return observe::aligned(lines);
}

// Sentences go on in the next line; a table is cut.
std::string wrapped_entry(std::string_view text, int width) {
  constexpr std::size_t kIndent = 2;
  return wrapped_behind(text, static_cast<std::size_t>(std::max(width, 1)), kIndent);
}

// Without what is beyond the size; characters stay whole.
std::string cut(std::string_view text, const TopSize& size) {
  std::string lines;
  for (int line_count = 0; !text.empty() && line_count < size.height; ++line_count) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    lines.append(cut_to_width(line, static_cast<std::size_t>(std::max(size.width, 0)))) += "\n";
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
  std::string above = head_line(view) + "\n";
  for (const std::string& line :
       {rate_text_of(view.run), phases_line(view.run), wrapped_entry(view.run.reason, size.width)})
    if (!line.empty()) above += line + "\n";
  above += "\n";
  const auto slow = slow_workers(view);
  std::string below = slow.empty() ? "" : "\n";
  for (const std::string& line : slow) below += wrapped_entry("slow: " + line, size.width) + "\n";
  const std::int64_t room = size.height - lines_of(above) - lines_of(below);
  return cut(above + shortened(workers_table(view.workers), room) + below, size);
}

}  // namespace muster::cli
