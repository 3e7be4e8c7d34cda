#include "muster/observe/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace muster::observe {
namespace {

// Margins of the drawing, in its own units; the page scales it.
constexpr double kLeft = 62;
constexpr double kRight = 14;
constexpr double kTop = 14;
constexpr double kBottom = 44;

struct Extent {
  double low;
  double high;
  double share(double value) const { return (value - low) / (high - low); }
};

bool is_finite(const Point& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

// Ticks, the range they cover, and where its ends lie in the drawing.
struct Axis {
  std::vector<double> ticks;
  Extent extent;
  double begin = 0;
  double end = 0;

  double at(double value) const { return begin + extent.share(value) * (end - begin); }
};

// A range no wider than the rounding of its ends (the means of equal values) is a constant: a tenth
// of its value is shown.
void widen(double& low, double& high) {
  const double size = std::max(std::abs(low), std::abs(high));
  if (high - low > size * 1e-9) return;
  high = low + (size == 0 ? 1 : size * 0.1);
}

Axis axis_of(const std::vector<Series>& series, double Point::*coordinate, bool whole_steps) {
  double low = INFINITY;
  double high = -INFINITY;
  for (const Series& one : series) {
    for (const Point& point : one.points) {
      if (!is_finite(point)) continue;
      low = std::min(low, point.*coordinate);
      high = std::max(high, point.*coordinate);
    }
  }
  widen(low, high);
  Axis axis{muster::observe::ticks(low, high, 6), {low, high}, 0, 0};
  if (whole_steps) axis.extent = {axis.ticks.front(), axis.ticks.back()};
  return axis;
}

std::string tick_text(double value) {
  if (std::abs(value) >= 1e6) return fmt::format("{:g} M", value / 1e6);
  if (std::abs(value) >= 1e4) return fmt::format("{:g} k", value / 1e3);
  return fmt::format("{:.4g}", std::abs(value) < 1e-12 ? 0.0 : value);
}

std::string grid(const Axis& x, const Axis& y, const std::function<std::string(double)>& x_text) {
  std::string svg;
  for (const double tick : y.ticks) {
    svg += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" />",
                       x.begin, x.end, y.at(tick), y.at(tick));
    svg += fmt::format("<text class=\"tick\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
                       x.begin - 8, y.at(tick) + 4, tick_text(tick));
  }
  for (const double tick : x.ticks) {
    if (tick < x.extent.low || tick > x.extent.high) continue;
    svg += fmt::format("<line class=\"axis\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\" />",
                       x.at(tick), x.at(tick), y.begin, y.begin + 5);
    svg +=
        fmt::format("<text class=\"tick\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                    x.at(tick), y.begin + 19, escape_html(x_text ? x_text(tick) : tick_text(tick)));
  }
  return svg + fmt::format("<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" />",
                           x.begin, x.end, y.begin, y.begin);
}

std::string labels(const Chart& chart, const Axis& x, const Axis& y) {
  return fmt::format(
      "<text class=\"label\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>"
      "<text class=\"label\" transform=\"translate(14 {}) rotate(-90)\" "
      "text-anchor=\"middle\">{}</text>",
      (x.begin + x.end) / 2, y.begin + kBottom - 6, escape_html(chart.x_label),
      (y.begin + y.end) / 2, escape_html(chart.y_label));
}

std::string curve(const Series& series, const Axis& x, const Axis& y) {
  std::string path;
  std::string dots;
  for (const Point& point : series.points) {
    if (!is_finite(point)) continue;
    const double at_x = x.at(point.x);
    const double at_y = y.at(point.y);
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", at_x, at_y);
    if (series.dots) {
      dots += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"var(--series-{})\"><title>{} "
          "{:.4g} at "
          "{:.6g}</title></circle>",
          at_x, at_y, series.colour, escape_html(series.name), point.y, point.x);
    }
  }
  return fmt::format("<path class=\"curve{}\" stroke=\"var(--series-{})\" d=\"{}\" />{}",
                     series.faint ? " faint" : "", series.colour, path, dots);
}

std::string legend(const std::vector<Series>& series) {
  if (series.size() < 2) return {};
  std::string html = "<ul class=legend>";
  for (const Series& one : series) {
    if (one.points.empty()) continue;
    html += fmt::format("<li><i style=\"background:var(--series-{}){}\"></i>{}</li>", one.colour,
                        one.faint ? ";opacity:.35" : "", escape_html(one.name));
  }
  return html + "</ul>";
}

bool is_empty(const Chart& chart) {
  return std::ranges::none_of(chart.series, [](const Series& series) {
    return std::ranges::any_of(series.points, is_finite);
  });
}

// Without the element around it.
std::string drawing(const Chart& chart) {
  Axis x = axis_of(chart.series, &Point::x, false);
  Axis y = axis_of(chart.series, &Point::y, true);
  x.begin = kLeft;
  x.end = chart.width - kRight;
  y.begin = chart.height - kBottom;
  y.end = kTop;
  std::string svg = grid(x, y, chart.x_text);
  for (const Series& series : chart.series) svg += curve(series, x, y);
  return svg + labels(chart, x, y);
}

// What a page has in its style sheet (page_style.h) and in HTML around the drawing.
constexpr std::string_view kFileStyle = R"css(<style>
svg { --ground: #ffffff; --ink: #1d2126; --muted: #69717c; --grid: #e6e4df; --series-1: #0072b2;
  --series-2: #d55e00; --series-3: #009e73; --series-4: #cc79a7; --series-5: #e69f00;
  --series-6: #56b4e9; --series-7: #b9b6ae; }
@media (prefers-color-scheme: dark) { svg { --ground: #14171a; --ink: #e8e6e1; --muted: #98a0aa;
  --grid: #2f353b; --series-1: #5ab4f0; --series-2: #ff9a52; --series-3: #3fcf9f;
  --series-4: #e39cc4; --series-5: #f2c14e; --series-6: #9bd3f5; --series-7: #565d64; } }
text { font: 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--muted);
  font-variant-numeric: tabular-nums; }
.title { font-size: 14px; font-weight: 600; fill: var(--ink); } .ground { fill: var(--ground); }
.grid { stroke: var(--grid); } .axis { stroke: var(--muted); }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.faint { opacity: .3; stroke-width: 1; }
</style>)css";

std::string drawn_legend(const std::vector<Series>& series) {
  constexpr double kCharacter = 7;  // about, at this size of letters
  std::string svg;
  double x = kLeft;
  for (const Series& one : series) {
    if (one.points.empty()) continue;
    svg += fmt::format(
        "<rect x=\"{}\" y=\"34\" width=\"10\" height=\"10\" rx=\"3\" fill=\"var(--series-{})\" "
        "opacity=\"{}\" /><text x=\"{}\" y=\"43\">{}</text>",
        x, one.colour, one.faint ? 0.35 : 1, x + 16, escape_html(one.name));
    x += 34 + kCharacter * static_cast<double>(one.name.size());
  }
  return svg;
}

}  // namespace

std::string render_line_chart(const Chart& chart) {
  if (is_empty(chart)) return {};
  return fmt::format(
      "<figure>{}<svg viewBox=\"0 0 {} {}\" role=img aria-label=\"{}\">{}</svg></figure>",
      legend(chart.series), chart.width, chart.height, escape_html(chart.title), drawing(chart));
}

std::string render_line_chart_file(const Chart& chart) {
  if (is_empty(chart)) return {};
  constexpr double kHead = 54;    // title and legend
  constexpr double kBeside = 16;  // the half of the last tick's text
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\" aria-label=\"{2}\">{3}<rect width=\"100%\" "
      "height=\"100%\" class=\"ground\" /><text class=\"title\" x=\"{4}\" "
      "y=\"22\">{2}</text>{5}<g transform=\"translate(0 {6})\">{7}</g></svg>\n",
      chart.width + kBeside, chart.height + kHead, escape_html(chart.title), kFileStyle, kLeft,
      drawn_legend(chart.series), kHead, drawing(chart));
}

std::string render_stacked_bar(std::string_view title, const std::vector<Part>& parts) {
  double total = 0;
  for (const Part& part : parts) total += std::max(0.0, part.value);
  if (!(total > 0)) return {};
  std::string bar;
  std::string rows;
  for (const Part& part : parts) {
    if (!(part.value > 0)) continue;
    const double percent = 100 * part.value / total;
    bar += fmt::format(
        "<span style=\"width:{:.3f}%;background:var(--series-{})\" title=\"{} {:.1f} %\"></span>",
        percent, part.colour, escape_html(part.name), percent);
    rows += fmt::format(
        "<tr><td><i style=\"background:var(--series-{})\"></i>{}<td class=number>{}<td "
        "class=number>{:.1f} %",
        part.colour, escape_html(part.name), escape_html(part.text), percent);
  }
  return fmt::format(
      "<div class=bar role=img aria-label=\"{}\">{}</div><table class=parts>{}</table>",
      escape_html(title), bar, rows);
}

std::vector<double> ticks(double low, double high, int count) {
  widen(low, high);
  const double rough = (high - low) / std::max(1, count);
  const double magnitude = std::pow(10, std::floor(std::log10(rough)));
  double step = magnitude;
  for (const double factor : {1.0, 2.0, 2.5, 5.0, 10.0}) {
    step = factor * magnitude;
    if (step >= rough) break;
  }
  std::vector<double> result;
  const double first = std::floor(low / step + 1e-9);
  const double last = std::ceil(high / step - 1e-9);
  for (double number = first; number <= last; ++number) result.push_back(number * step);
  return result;
}

std::vector<Point> thinned(const std::vector<Point>& points, std::size_t limit) {
  if (points.size() <= limit) return points;
  std::vector<Point> result;
  for (std::size_t i = 0; i < limit; ++i) {
    const std::size_t begin = i * points.size() / limit;
    const std::size_t end = (i + 1) * points.size() / limit;
    Point mean{0, 0};
    for (std::size_t j = begin; j < end; ++j) {
      mean.x += points[j].x / static_cast<double>(end - begin);
      mean.y += points[j].y / static_cast<double>(end - begin);
    }
    result.push_back(mean);
  }
  return result;
}

std::vector<Point> smoothed(const std::vector<Point>& points, std::size_t window) {
  std::vector<Point> result;
  for (std::size_t i = 0; i < points.size(); ++i) {
    // The same reach on both sides, so that the ends are not pulled inwards.
    const std::size_t reach = std::min({window, i, points.size() - 1 - i});
    double sum = 0;
    for (std::size_t j = i - reach; j <= i + reach; ++j) sum += points[j].y;
    result.push_back({points[i].x, sum / static_cast<double>(2 * reach + 1)});
  }
  return result;
}

std::string escape_html(std::string_view text) {
  std::string escaped;
  for (const char character : text) {
    switch (character) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += character;
    }
  }
  return escaped;
}

}  // namespace muster::observe
