#include "muster/cli/run_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "muster/base/units.h"
#include "muster/observe/number_text.h"

namespace muster::cli {
namespace {

using observe::RunInfo;

std::string status_line(std::string_view what, const std::string& text) {
  return text.empty() ? text : fmt::format("  {:<9}{}\n", what, text);
}

std::string state_text(const RunInfo& run) {
  std::string text(to_string(run.state));
  if (!run.reason.empty()) text += ": " + run.reason;
  return text;
}

std::string progress_text(const RunInfo& run) {
  const auto& outline = run.outline;
  std::string text = observe::grouped(to_int(last_step(outline)));
  if (outline.started && outline.started->total_steps > 0)
    text += " of " + observe::grouped(outline.started->total_steps);
  if (outline.last_step) text += fmt::format(", epoch {:.2f}", outline.last_step->epoch);
  return text;
}

std::string measured_text(const RunInfo& run) {
  std::string text;
  const auto add = [&](const observe::MetricText& metric) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", metric.name, metric.value);
  };
  const auto& row = run.outline.last_step;
  const auto loss = row ? row->find(observe::metric::kTrainLoss) : std::nullopt;
  if (loss) add(observe::result_text({std::string(observe::metric::kTrainLoss), *loss}));
  if (const auto best = observe::best_evaluation(run.outline)) {
    auto metric = observe::result_text(*best);
    metric.name.insert(0, "best ");
    add(metric);
  }
  return text;
}

// One that is not asked yet owes no answer.
std::string phase_of(const app::DebugWorker& worker) {
  if (!worker.phase.empty()) return worker.phase;
  const bool owes = worker.starting && !worker.dump && !worker.waits_to_begin && worker.pid > 0;
  if (!owes) return "not begun";
  return "not begun, and has not answered yet" +
         (worker.state.empty() ? std::string() : "; " + worker.state);
}

std::string workers_text(const RunStatus& status) {
  if (!status.workers) {
    const auto& started = status.run.outline.started;
    return started ? observe::grouped(started->workers) : std::string();
  }
  std::string text = observe::grouped(std::ssize(status.workers->workers)) + "\n";
  for (const app::DebugWorker& worker : status.workers->workers) {
    text += fmt::format("    worker {} ({}): step {}, {}\n", worker.worker, app::place_of(worker),
                        worker.step, phase_of(worker));
  }
  text.pop_back();
  return text;
}

std::string late_text(const RunStatus& status) {
  if (!status.workers) return status.no_answer;
  const auto lines = late_workers(*status.workers);
  std::string text = lines.empty() ? "nobody" : "";
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n           ") + line;
  return text;
}

}  // namespace

std::vector<std::string> late_workers(const app::DebugReport& report) {
  std::vector<std::string> lines = app::conclusions(report);
  std::int64_t newest = 0;
  for (const app::DebugWorker& worker : report.workers) newest = std::max(newest, worker.step);
  for (const app::DebugWorker& worker : report.workers) {
    if (worker.dump && !worker.starting && worker.step + 1 < newest)
      lines.push_back(
          fmt::format("worker {} is at step {}, others at {}", worker.worker, worker.step, newest));
  }
  return lines;
}

std::optional<Duration> time_left(const RunInfo& run) {
  const auto& row = run.outline.last_step;
  const auto& step = run.outline.step_time;
  const auto& started = run.outline.started;
  if (run.state != observe::RunState::kRunning || !row || !step || !started ||
      started->total_steps <= 0)
    return std::nullopt;
  const auto steps = static_cast<double>(started->total_steps - to_int(row->step));
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::max(steps, 0.0) * *step));
}

std::string rate_text_of(const RunInfo& run) {
  const auto& row = run.outline.last_step;
  if (!row) return {};
  const auto tokens = row->find(observe::metric::kTokensPerSecond);
  const auto rate = tokens ? tokens : row->find(observe::metric::kSamplesPerSecond);
  const auto step = row->find(observe::metric::kStepTime);
  if (!rate || !step) return {};
  std::string text = fmt::format("{} {}/s, {:.3g} ms a step", observe::grouped(std::llround(*rate)),
                                 tokens ? "tokens" : "samples", *step * 1e3);
  if (const auto left = time_left(run))
    text += fmt::format(", {} left", observe::clock_text(*left));
  return text;
}

std::string status_text(const RunStatus& status) {
  const RunInfo& run = status.run;
  std::string text = fmt::format("{} {} in {}\n", run.name.job, run.name.id, run.root.native());
  text += status_line("state", state_text(run));
  text += status_line("step", progress_text(run));
  text += status_line("measured", measured_text(run));
  text += status_line("rate", rate_text_of(run));
  text += status_line("time", observe::clock_text(run.outline.took));
  text += status_line("workers", workers_text(status));
  if (run.state != observe::RunState::kRunning) return text;
  text += status_line("late", late_text(status));
  for (const std::string& line : run.outline.slow) text += status_line("slow", line);
  return text;
}

}  // namespace muster::cli
