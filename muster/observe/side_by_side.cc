#include "muster/observe/side_by_side.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/observe/chart.h"
#include "muster/observe/number_text.h"
#include "muster/observe/page.h"
#include "muster/observe/table_text.h"

namespace muster::observe {
namespace {

std::vector<Metric> final_metrics_of(const ReportInput& run) {
  if (!run.ended.results.empty()) return run.ended.results;
  std::vector<Metric> metrics;
  for (const bool evaluation : {true, false}) {
    const auto row = std::find_if(run.rows.rbegin(), run.rows.rend(), [&](const Metrics& one) {
      return one.is_evaluation() == evaluation;
    });
    if (row != run.rows.rend())
      metrics.insert(metrics.end(), row->values.begin(), row->values.end());
  }
  return metrics;
}

std::string_view shown(const std::string& value) { return value.empty() ? kNothing : value; }

}  // namespace

std::vector<SideBySide> final_metrics(const std::vector<ComparedRun>& runs) {
  std::vector<SideBySide> lines;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const Metric& metric : final_metrics_of(runs[i].run)) {
      auto line = std::ranges::find(lines, metric.name, &SideBySide::what);
      if (line == lines.end())
        line = lines.insert(line, {metric.name, std::vector<std::string>(runs.size())});
      line->values[i] = metric_text(metric).value;
    }
  }
  return lines;
}

std::string side_by_side_text(std::string_view heading, const std::vector<std::string>& names,
                              const std::vector<SideBySide>& lines, std::size_t width) {
  if (lines.empty()) return {};
  std::vector<std::vector<std::string>> table = {{std::string(heading)}};
  table.reserve(lines.size() + 1);
  table.front().insert(table.front().end(), names.begin(), names.end());
  for (const SideBySide& line : lines) {
    table.push_back({line.what});
    table.back().reserve(line.values.size() + 1);
    for (const std::string& value : line.values) table.back().emplace_back(shown(value));
  }
  return aligned(table, 1, width);
}

std::string side_by_side_card(std::string_view title, const std::vector<std::string>& names,
                              const std::vector<SideBySide>& lines) {
  if (lines.empty()) return {};
  std::string rows = "<tr><th>";
  for (const std::string& name : names) rows += "<th class=number>" + escape_html(name);
  for (const SideBySide& line : lines) {
    rows += "<tr><td class=key>" + escape_html(line.what);
    for (const std::string& value : line.values)
      rows += "<td class=number>" + escape_html(shown(value));
  }
  return card(title, "<div class=scroll><table>" + rows + "</table></div>", "wide");
}

}  // namespace muster::observe
