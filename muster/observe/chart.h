#pragma once
// Charts as inline SVG, drawn with the page's own colours (CSS variables --series-1 …, --grid,
// --muted). Pure.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::observe {

struct Point {
  double x;
  double y;
};

struct Series {
  std::string name;
  std::vector<Point> points;  // in order of x; points that are not finite are left out
  int colour = 1;             // --series-<colour>
  bool dots = false;          // marks each point, for series of few
  bool faint = false;         // drawn behind the others
};

struct Chart {
  std::string title;  // read by screen readers
  std::string x_label;
  std::string y_label;
  std::vector<Series> series;
  double width = 470;  // of the drawing, in its units: about pixels where half a page is wide
  double height = 230;
  std::function<std::string(double)> x_text = {};  // of a tick; none: the number
};

std::string render_line_chart(const Chart& chart);  // empty where no series has points
// The same as a file of its own, with its title, its legend and colours for light and dark.
std::string render_line_chart_file(const Chart& chart);

struct Part {
  std::string name;
  double value;
  std::string text;  // "412 ms"
  int colour = 1;
};
// One bar of all parts, with a legend below. Empty where the parts sum to nothing.
std::string render_stacked_bar(std::string_view title, const std::vector<Part>& parts);

// Round numbers that cover [low, high] with about `count` steps between them.
std::vector<double> ticks(double low, double high, int count);

// At most about `limit` points: the mean of each of so many equal stretches.
std::vector<Point> thinned(const std::vector<Point>& points, std::size_t limit);
// A moving average over `window` points on each side.
std::vector<Point> smoothed(const std::vector<Point>& points, std::size_t window);

std::string escape_html(std::string_view text);

}  // namespace muster::observe
