#include <fmt/format.h>

#include <algorithm>

#include "muster/plan/cell.h"
#include "muster/plan/timeline.h"

namespace muster::plan {
namespace {

// Okabe and Ito's colours, told apart by colour-blind eyes, as in the report of a run.
constexpr std::string_view kStyle = R"css(<style>
svg { --ground: #ffffff; --ink: #1d2126; --muted: #69717c; --line: #e6e4df; --idle: #f3f2ef;
  --f: #0072b2; --b: #d55e00; --w: #009e73; --held: #b9b6ae; }
@media (prefers-color-scheme: dark) { svg { --ground: #14171a; --ink: #e8e6e1; --muted: #98a0aa;
  --line: #2f353b; --idle: #1c2024; --f: #2b8bc9; --b: #d9702a; --w: #2aa27c; --held: #565d64; } }
text { font: 11px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--muted);
  font-variant-numeric: tabular-nums; }
.title { font-size: 14px; font-weight: 600; fill: var(--ink); }
.on { font-size: 10px; fill: #ffffff; text-anchor: middle; } .pale { fill: var(--ink); }
.f { fill: var(--f); } .b { fill: var(--b); } .w { fill: var(--w); }
.idle { fill: var(--idle); } .held { fill: var(--held); } .line { stroke: var(--line); }
</style>
)css";

// Lengths in the drawing's own units, about pixels.
constexpr double kWidth = 1080;
constexpr double kLeft = 78;
constexpr double kRight = 20;
constexpr double kRow = 22;
constexpr double kHeld = 12;  // the strip below a row
constexpr double kRowGap = 5;
constexpr double kHead = 46;  // of a panel
constexpr double kFoot = 34;
constexpr double kLegend = 34;

std::string number(double value) {  // short: "12.5", "12"
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

struct Scales {  // one for all panels
  double per_nanosecond;
  double per_byte;
  double x(Duration at) const { return kLeft + static_cast<double>(at.count()) * per_nanosecond; }
};

Scales scales_of(std::span<const PipelineSimulation> simulations) {
  Duration longest{1};
  std::uint64_t most = 1;
  for (const PipelineSimulation& simulation : simulations) {
    longest = std::max(longest, simulation.makespan);
    most = std::max(most, simulation.peak_bytes());
  }
  return {(kWidth - kLeft - kRight) / static_cast<double>(longest.count()),
          kHeld / static_cast<double>(most)};
}

std::string_view class_of(const Cell& cell) {
  return cell.letter() == 'F' ? "f" : cell.letter() == 'B' ? "b" : "w";
}

// A stage's later chunks are paler.
double opacity_of(const Cell& cell) {
  return cell.turns == 1 ? 1 : 1 - 0.4 * cell.turn / (cell.turns - 1);
}

std::string cell_svg(const Cell& cell, const Scales& scales, double y) {
  const double x = scales.x(cell.time.begin);
  const double width = scales.x(cell.time.end) - x;
  if (width <= 0) return {};
  const double gap = std::min(1.0, width / 5);
  const double opacity = opacity_of(cell);
  std::string svg = fmt::format(
      "<rect class=\"{}\"{} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"2\"/>\n",
      class_of(cell), opacity < 1 ? fmt::format(" opacity=\"{}\"", number(opacity)) : "", number(x),
      number(y), number(width - gap), number(kRow));
  const std::string label = std::to_string(cell.micro_batch);
  if (width < 7.0 * static_cast<double>(label.size()) + 3) return svg;
  return svg + fmt::format("<text class=\"on{}\" x=\"{}\" y=\"{}\">{}</text>\n",
                           opacity < 0.8 ? " pale" : "", number(x + (width - gap) / 2),
                           number(y + kRow / 2 + 3.5), label);
}

// What the stage holds, as steps.
std::string held_svg(const std::vector<MemoryPoint>& memory, Duration until, const Scales& scales,
                     double y) {
  const double floor = y + kHeld;
  std::string path = fmt::format("M{} {}", number(scales.x(memory.front().at)), number(floor));
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const Duration end = i + 1 < memory.size() ? memory[i + 1].at : until;
    const std::string top = number(floor - static_cast<double>(memory[i].bytes) * scales.per_byte);
    path += fmt::format("L{} {}L{} {}", number(scales.x(memory[i].at)), top, number(scales.x(end)),
                        top);
  }
  return fmt::format("<path class=\"held\" d=\"{}L{} {}Z\"/>\n", path, number(scales.x(until)),
                     number(floor));
}

double panel_height(const PipelineSimulation& simulation) {
  return kHead + static_cast<double>(simulation.stages.size()) * (kRow + kHeld + kRowGap) + kFoot;
}

std::string heading(const PipelineSimulation& simulation, double y) {
  const std::string facts =
      fmt::format("step {}, bubble {:.1f} %; without a barrier {}, {:.1f} %",
                  time_text(simulation.makespan), 100 * simulation.bubble(),
                  time_text(simulation.period), 100 * simulation.bubble_without_barrier());
  return fmt::format(
      "<text class=\"title\" x=\"{0}\" y=\"{1}\">{2}</text>\n<text x=\"{0}\" "
      "y=\"{3}\">{4}</text>\n",
      number(kLeft), number(y + 16), title_of(simulation), number(y + 34), facts);
}

std::string axis(const PipelineSimulation& simulation, const Scales& scales, double y) {
  const double end = scales.x(simulation.makespan);
  return fmt::format(
      "<line class=\"line\" x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\"/>\n"
      "<text x=\"{0}\" y=\"{3}\">0</text>\n<text x=\"{1}\" y=\"{3}\" "
      "text-anchor=\"end\">{4}</text>\n",
      number(kLeft), number(end), number(y + 2), number(y + 15), time_text(simulation.makespan));
}

std::string panel(const PipelineSimulation& simulation, const Scales& scales, double y) {
  std::string svg = heading(simulation, y);
  double top = y + kHead;
  const auto rows = cells_of(simulation);
  for (std::size_t stage = 0; stage < rows.size(); ++stage, top += kRow + kHeld + kRowGap) {
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">stage {}</text>\n",
                       number(kLeft - 10), number(top + kRow / 2 + 4), stage);
    svg += fmt::format("<rect class=\"idle\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
                       number(kLeft), number(top), number(scales.x(simulation.makespan) - kLeft),
                       number(kRow));
    for (const Cell& cell : rows[stage]) svg += cell_svg(cell, scales, top);
    svg += held_svg(simulation.stages[stage].memory, simulation.makespan, scales, top + kRow + 1);
  }
  return svg + axis(simulation, scales, top);
}

std::string legend(bool split, bool chunks, double y) {
  std::string svg;
  double x = kLeft;
  const auto entry = [&](std::string_view name, std::string_view text) {
    svg += fmt::format(
        "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"10\" height=\"10\" rx=\"2\"/>\n"
        "<text x=\"{}\" y=\"{}\">{}</text>\n",
        name, number(x), number(y), number(x + 16), number(y + 9), text);
    x += 16 + 6.2 * static_cast<double>(text.size()) + 22;
  };
  entry("f", "forward");
  entry("b", split ? "backward (for the input, where split)" : "backward");
  if (split) entry("w", "backward for the weights");
  entry("held", "memory held");
  if (chunks)
    svg += fmt::format("<text x=\"{}\" y=\"{}\">paler: the stage's later chunks</text>\n",
                       number(x), number(y + 9));
  return svg;
}

bool splits(const PipelineSimulation& simulation) {
  return std::ranges::any_of(simulation.schedule.actions, [](const auto& actions) {
    return std::ranges::find(actions, layout::ActionKind::kBackwardWeight, &layout::Action::kind) !=
           actions.end();
  });
}

}  // namespace

std::string timeline_svg(std::span<const PipelineSimulation> simulations) {
  const Scales scales = scales_of(simulations);
  double height = 14;
  std::string body;
  for (const PipelineSimulation& simulation : simulations) {
    body += panel(simulation, scales, height);
    height += panel_height(simulation);
  }
  const bool chunks = std::ranges::any_of(simulations, [](const PipelineSimulation& one) {
    return one.schedule.chunks() > one.schedule.stages();
  });
  body += legend(std::ranges::any_of(simulations, splits), chunks, height);
  height += kLegend;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\">\n{2}<rect width=\"{0}\" height=\"{1}\" "
      "fill=\"var(--ground)\"/>\n{3}</svg>\n",
      number(kWidth), number(height), kStyle, body);
}

}  // namespace muster::plan
