#include "muster/observe/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "muster/base/units.h"
#include "muster/observe/chart.h"
#include "muster/observe/number_text.h"
#include "muster/observe/page.h"
#include "muster/observe/phase_timer.h"

namespace muster::observe {
namespace {

constexpr std::size_t kChartPoints = 1200;  // more than the chart has pixels help nobody
constexpr std::size_t kSmallChartPoints = 300;
constexpr int kOtherColour = 7;

std::vector<Point> points_of(const std::vector<Metrics>& rows, std::string_view metric) {
  std::vector<Point> points;
  for (const Metrics& row : rows) {
    if (const auto value = row.find(metric)) {
      points.push_back({static_cast<double>(to_int(row.step)), *value});
    }
  }
  return points;
}

double mean_of(const std::vector<Metrics>& rows, std::string_view metric) {
  const std::vector<Point> points = points_of(rows, metric);
  double sum = 0;
  for (const Point& point : points) sum += point.y;
  return points.empty() ? 0 : sum / static_cast<double>(points.size());
}

std::string loss_chart(const ReportInput& input) {
  const std::vector<Point> raw = points_of(input.rows, metric::kTrainLoss);
  const std::vector<Point> shown = thinned(raw, kChartPoints);
  Chart chart{"loss over steps", "step", "loss", {}, 1000, 340};
  const bool noisy = shown.size() > 40;
  chart.series.push_back({noisy ? "training, each step" : "training", shown, 1, false, noisy});
  if (noisy) {
    chart.series.push_back({"training, smoothed", smoothed(shown, shown.size() / 40), 1});
  }
  const std::vector<Point> evaluation = points_of(input.rows, metric::kEvalLoss);
  if (!evaluation.empty()) chart.series.push_back({"validation", evaluation, 2, true});
  return render_line_chart(chart);
}

std::string single_chart(const ReportInput& input, std::string_view metric, std::string_view label,
                         int colour, bool dots) {
  Series series{std::string(label), thinned(points_of(input.rows, metric), kSmallChartPoints),
                colour, dots};
  return render_line_chart({std::string(label), "step", std::string(label), {std::move(series)}});
}

std::string throughput_chart(const ReportInput& input) {
  std::vector<Point> points =
      thinned(points_of(input.rows, metric::kSamplesPerSecond), kChartPoints);
  if (points.size() > 40) points = smoothed(points, points.size() / 80);
  return render_line_chart(
      {"samples per second", "step", "samples / s", {{"samples / s", std::move(points), 3}}});
}

Duration seconds(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

std::string phase_bar(const ReportInput& input) {
  std::vector<Part> parts;
  double rest = mean_of(input.rows, metric::kStepTime);
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    const Phase phase = static_cast<Phase>(i);
    const double mean = mean_of(input.rows, metric_name(phase));
    rest -= mean;
    parts.push_back({std::string(to_string(phase)), mean, format_duration(seconds(mean)),
                     static_cast<int>(i) + 1});
  }
  parts.push_back({"everything else", std::max(rest, 0.0),
                   format_duration(seconds(std::max(rest, 0.0))), kOtherColour});
  return render_stacked_bar("mean time of a step by phase", parts);
}

std::string tile(std::string_view name, std::string_view value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", escape_html(name), escape_html(value));
}

std::string numbers(const ReportInput& input) {
  std::string html;
  for (const Metric& metric : input.ended.results) {
    const auto [name, value] = result_text(metric);
    html += tile(name, value);
  }
  html += tile("steps", grouped(to_int(input.ended.step)));
  html += tile("time", format_duration(input.ended.took));
  if (const double rate = mean_of(input.rows, metric::kSamplesPerSecond); rate > 0) {
    html += tile("samples / s", grouped(static_cast<std::int64_t>(rate)));
  }
  if (const double used = mean_of(input.rows, metric::kMfu); used > 0)
    html += tile("model FLOPs utilisation", fmt::format("{:.1f} %", 100 * used));
  html += tile("workers", grouped(input.started.workers));
  if (input.started.parameters > 0) {
    html += tile("parameters", format_count(static_cast<double>(input.started.parameters)));
  }
  return "<dl class=numbers>" + html + "</dl>\n";
}

std::string key_row(std::string_view key, std::string_view value) {
  if (value.empty()) return {};
  return fmt::format("<tr><td class=key>{}<td>{}", escape_html(key), escape_html(value));
}

std::string environment_table(const Environment& environment) {
  std::string rows = key_row("host", environment.host) + key_row("system", environment.system) +
                     key_row("processor", environment.cpu);
  if (environment.cores > 0) rows += key_row("cores", grouped(environment.cores));
  if (environment.memory_bytes > 0)
    rows += key_row("memory", format_bytes(environment.memory_bytes));
  rows +=
      key_row("instruction sets", fmt::format("{}", fmt::join(environment.instruction_sets, " ")));
  for (const auto& [name, version] : environment.versions) rows += key_row(name, version);
  return rows.empty() ? rows : "<table>" + rows + "</table>";
}

std::string stall_text(Duration stall) {
  return stall > Duration{0} ? format_duration(stall) : "none";
}

std::string checkpoint_table(const std::vector<CheckpointWritten>& checkpoints) {
  if (checkpoints.empty()) return {};
  std::string rows =
      "<tr><th>step<th class=number>size<th class=number>written in<th class=number>stall";
  for (const CheckpointWritten& checkpoint : checkpoints) {
    rows += fmt::format("<tr><td>{}<td class=number>{}<td class=number>{}<td class=number>{}",
                        grouped(to_int(checkpoint.step)), format_bytes(checkpoint.bytes),
                        format_duration(checkpoint.took), stall_text(checkpoint.stall));
  }
  return "<div class=scroll><table>" + rows + "</table></div>";
}

std::string heading(const ReportInput& input, const std::string& state, bool good) {
  return fmt::format(
      "<header><h1>{}<span class=\"state {}\">{}</span></h1><p>{}</p><p>{}</p></header>\n",
      escape_html(input.started.name), good ? "good" : "bad", escape_html(state),
      escape_html(input.started.headline), escape_html(input.started.run_folder));
}

std::string cards_of(const ReportInput& input, std::string_view more_cards) {
  std::string cards = card("Loss", loss_chart(input), "wide");
  cards += more_cards;
  cards +=
      card("Validation accuracy", single_chart(input, metric::kEvalAccuracy, "accuracy", 2, true));
  cards += card("Validation bits per byte",
                single_chart(input, metric::kEvalBitsPerByte, "bits per byte", 2, true));
  cards +=
      card("Learning rate", single_chart(input, metric::kLearningRate, "learning rate", 4, false));
  cards += card("Throughput", throughput_chart(input));
  cards += card("Gradient norm", single_chart(input, metric::kGradNorm, "norm", 5, false));
  cards += card("Where a step's time goes", phase_bar(input));
  cards += card("Checkpoints", checkpoint_table(input.checkpoints));
  cards += card("Environment", environment_table(input.environment), "wide");
  if (!input.resolved_job.empty()) {
    cards += fmt::format(
        "<section class=\"card wide\"><details><summary>Resolved job</summary><pre>{}</pre>"
        "</details></section>\n",
        escape_html(input.resolved_job));
  }
  return cards;
}

}  // namespace

std::string render_report(const ReportInput& input) {
  const bool good = input.ended.completed;
  std::string state = good ? "completed" : "stopped";
  if (!input.ended.reason.empty()) state += ": " + input.ended.reason;
  return page(input.started.name, heading(input, state, good) + numbers(input),
              cards_of(input, ""));
}

std::string render_live_report(const ReportInput& input, RunState state,
                               std::string_view more_cards) {
  const bool good = state == RunState::kRunning || state == RunState::kFinished;
  std::string words(to_string(state));
  if (state != RunState::kRunning && !input.ended.reason.empty())
    words += ": " + input.ended.reason;
  return live_page(fmt::format("{}: {}", input.started.name, to_string(state)),
                   heading(input, words, good) + numbers(input), cards_of(input, more_cards));
}

}  // namespace muster::observe
