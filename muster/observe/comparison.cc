#include "muster/observe/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "muster/base/text_width.h"
#include "muster/base/units.h"
#include "muster/observe/chart.h"
#include "muster/observe/gib.h"
#include "muster/observe/number_text.h"
#include "muster/observe/page.h"
#include "muster/observe/table_text.h"

namespace muster::observe {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostWarmUp = 10;  // steps
constexpr std::size_t kPicturePoints = 600;
constexpr int kColours = 6;

std::vector<const Metrics*> steps_of(const std::vector<Metrics>& rows) {
  std::vector<const Metrics*> steps;
  for (const Metrics& row : rows) {
    if (!row.is_evaluation()) steps.push_back(&row);
  }
  return steps;
}

// Of the steps after the warm-up: the mean of `metric`, each weighed by its time where `weighed`.
std::optional<double> mean_of(const std::vector<Metrics>& rows, std::string_view metric,
                              bool weighed) {
  const std::vector<const Metrics*> steps = steps_of(rows);
  double sum = 0;
  double weight = 0;
  for (std::size_t i = std::min(kMostWarmUp, steps.size() / 2); i < steps.size(); ++i) {
    const auto value = steps[i]->find(metric);
    const auto time = steps[i]->find(metric::kStepTime);
    if (!value || (weighed && !time)) continue;
    const double share = weighed ? *time : 1;
    sum += *value * share;
    weight += share;
  }
  if (!(weight > 0)) return std::nullopt;
  return sum / weight;
}

std::optional<double> result_of(const RunEnded& ended, std::string_view name) {
  const auto found = std::ranges::find(ended.results, name, &Metric::name);
  if (found == ended.results.end()) return std::nullopt;
  return found->value;
}

std::optional<double> rate_of(const RunFigures& figures) {
  return figures.tokens_per_s ? figures.tokens_per_s : figures.samples_per_s;
}

// Rates that may be set beside each other: in tokens where every run that has one counts them.
std::vector<RunFigures> in_one_unit(std::vector<RunFigures> runs) {
  const bool samples = std::ranges::any_of(
      runs, [](const RunFigures& run) { return run.samples_per_s && !run.tokens_per_s; });
  for (RunFigures& run : runs) {
    if (samples) run.tokens_per_s.reset();
  }
  return runs;
}

// Of runs in one unit.
std::string_view rate_name(const std::vector<RunFigures>& runs) {
  const bool tokens =
      std::ranges::any_of(runs, [](const auto& run) { return run.tokens_per_s.has_value(); });
  return tokens ? "tokens/s" : "samples/s";
}

std::string loss_text(const RunFigures& run) {
  return run.loss ? fmt::format("{:.4f}", *run.loss) : std::string(kNothing);
}

std::string rate_text(const RunFigures& run) {
  const auto rate = rate_of(run);
  return rate ? grouped(std::llround(*rate)) : std::string(kNothing);
}

std::string ratio_text(const RunFigures& run, const RunFigures& first) {
  const auto rate = rate_of(run);
  const auto base = rate_of(first);
  return rate && base && *base > 0 ? fmt::format("{:.2f}×", *rate / *base) : std::string(kNothing);
}

std::string sent_text(const RunFigures& run) {
  return run.bytes_a_step ? format_bytes(static_cast<std::uint64_t>(*run.bytes_a_step))
                          : std::string(kNothing);
}

std::string memory_text(const RunFigures& run) {
  return run.peak_bytes ? format_bytes(*run.peak_bytes) : std::string(kNothing);
}

std::string weights_text(const RunFigures& run, const RunFigures& first) {
  constexpr std::size_t kShown = 8;
  if (run.weights.empty()) return std::string(kNothing);
  if (&run != &first && run.weights == first.weights) return "same";
  return run.weights.substr(0, kShown);
}

std::vector<std::string> cells(const RunFigures& run, const RunFigures& first) {
  return {run.name,       loss_text(run),   rate_text(run),       ratio_text(run, first),
          sent_text(run), memory_text(run), clock_text(run.took), weights_text(run, first)};
}

std::vector<std::string> headings(const std::vector<RunFigures>& runs) {
  return {"", "loss", std::string(rate_name(runs)), "", "sent/step", "memory", "time", "weights"};
}

int colour_of(std::size_t index) { return static_cast<int>(index % kColours) + 1; }

// Seconds since the run began to train: how long the first step took is in it.
std::vector<Point> loss_against_time(const std::vector<Metrics>& rows) {
  std::vector<Point> points;
  const std::vector<const Metrics*> steps = steps_of(rows);
  if (steps.empty()) return points;
  const double first = steps.front()->find(metric::kStepTime).value_or(0);
  for (const Metrics* step : steps) {
    const auto loss = step->find(metric::kTrainLoss);
    const std::chrono::duration<double> since = step->time - steps.front()->time;
    if (loss) points.push_back({first + since.count(), *loss});
  }
  return smoothed(thinned(points, kPicturePoints), kPicturePoints / 60);
}

std::string loss_chart(const std::vector<ComparedRun>& runs) {
  Chart chart{"training loss against time", "seconds", "training loss", {}, 1000, 340};
  for (std::size_t i = 0; i < runs.size(); ++i)
    chart.series.push_back({runs[i].name, loss_against_time(runs[i].run.rows), colour_of(i)});
  return render_line_chart(chart);
}

std::string name_cell(const ComparedRun& run, const Path& base) {
  std::string name = escape_html(run.name);
  if (run.folder.empty()) return name;
  const Path report = Path(run.folder).lexically_relative(base) / "report.html";
  return fmt::format("<a href=\"{}\">{}</a>", escape_html(report.generic_string()), name);
}

std::string html_table(const std::vector<ComparedRun>& runs, const std::vector<RunFigures>& figures,
                       const Path& base) {
  std::string rows = "<tr>";
  for (const std::string& heading : headings(figures))
    rows += fmt::format("<th class=number>{}", heading);
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const auto line = cells(figures[i], figures.front());
    rows += fmt::format("<tr><td><i style=\"background:var(--series-{})\"></i>{}", colour_of(i),
                        name_cell(runs[i], base));
    for (std::size_t j = 1; j < line.size(); ++j) rows += "<td class=number>" + line[j];
    if (!figures[i].failure.empty()) {
      rows += fmt::format("<tr><td colspan={} class=bad>{}", line.size(),
                          escape_html(figures[i].failure));
    }
  }
  return "<div class=scroll><table>" + rows + "</table></div>";
}

// One bar a run, the longest as wide as the card.
std::string bars(const std::vector<RunFigures>& runs,
                 std::optional<double> (*value)(const RunFigures&),
                 std::string (*text)(const RunFigures&)) {
  double most = 0;
  for (const RunFigures& run : runs) most = std::max(most, value(run).value_or(0));
  if (!(most > 0)) return {};
  std::string rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    rows += fmt::format(
        "<tr><td class=key>{}<td class=length><span style=\"width:{:.2f}%;background:var(--series-"
        "{})\"></span><td class=number>{}",
        escape_html(runs[i].name), 100 * value(runs[i]).value_or(0) / most, colour_of(i),
        text(runs[i]));
  }
  return "<table>" + rows + "</table>";
}

std::optional<double> memory_of(const RunFigures& run) {
  if (!run.peak_bytes) return std::nullopt;
  return static_cast<double>(*run.peak_bytes);
}
std::optional<double> sent_of(const RunFigures& run) { return run.bytes_a_step; }

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

RunFigures figures_of(const ComparedRun& compared) {
  const ReportInput& run = compared.run;
  RunFigures figures;
  figures.name = compared.name;
  figures.weights = compared.weights;
  figures.loss = result_of(run.ended, metric::kEvalLoss);
  if (!figures.loss) figures.loss = result_of(run.ended, metric::kTrainLoss);
  figures.samples_per_s = mean_of(run.rows, metric::kSamplesPerSecond, true);
  figures.tokens_per_s = mean_of(run.rows, metric::kTokensPerSecond, true);
  figures.bytes_a_step = mean_of(run.rows, metric::kBytesOnWire, false);
  if (const auto peak = result_of(run.ended, metric::kPeakRss))
    figures.peak_bytes = from_gib(*peak);
  figures.took = run.ended.took;
  if (!run.ended.completed)
    figures.failure = run.ended.reason.empty() ? "stopped" : run.ended.reason;
  return figures;
}

std::string comparison_text(const std::vector<RunFigures>& measured, std::size_t width) {
  if (measured.empty()) return {};
  const std::vector<RunFigures> runs = in_one_unit(measured);
  std::vector<std::vector<std::string>> lines = {headings(runs)};
  std::string failures;
  for (const RunFigures& run : runs) {
    lines.push_back(cells(run, runs.front()));
    if (!run.failure.empty())
      failures += fitted(fmt::format("{}: {}", run.name, run.failure), width) + "\n";
  }
  return aligned(lines, 1, width) + failures;
}

Json comparison_json(const std::vector<RunFigures>& runs) {
  Json all = Json::array();
  for (const RunFigures& run : runs) {
    all.push_back({{"name", run.name},
                   {"completed", run.failure.empty()},
                   {"loss", number_or_null(run.loss)},
                   {"samples_per_s", number_or_null(run.samples_per_s)},
                   {"tokens_per_s", number_or_null(run.tokens_per_s)},
                   {"bytes_on_wire", number_or_null(run.bytes_a_step)},
                   {"peak_bytes", run.peak_bytes ? Json(*run.peak_bytes) : Json()},
                   {"took_s", std::chrono::duration<double>(run.took).count()},
                   {"weights", run.weights},
                   {"failure", run.failure}});
  }
  return all;
}

std::string render_comparison(std::string_view title, const std::vector<ComparedRun>& runs,
                              const Path& base, std::string_view more_cards) {
  std::vector<RunFigures> figures;
  figures.reserve(runs.size());
  for (const ComparedRun& run : runs) figures.push_back(figures_of(run));
  figures = in_one_unit(std::move(figures));
  const std::string head =
      fmt::format("<header><h1>{}</h1><p>{}</p></header>\n", escape_html(title),
                  runs.empty() ? "" : escape_html(runs.front().run.started.headline));
  std::string cards = card("Side by side", html_table(runs, figures, base), "wide");
  cards += card("Loss against time", loss_chart(runs), "wide");
  cards += card(rate_name(figures), bars(figures, rate_of, rate_text));
  cards += card("Peak memory of a worker", bars(figures, memory_of, memory_text));
  cards += card("Sent by the first worker, a step", bars(figures, sent_of, sent_text));
  cards += more_cards;
  return page(title, head, cards);
}

}  // namespace muster::observe
