#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "muster/plan/cell.h"
#include "muster/plan/timeline.h"

namespace muster::plan {
namespace {

constexpr int kLeastColumns = 40;
constexpr int kWidestUnit = 4;  // columns of the shortest stretch of time: room for "F12a"

// Columns of time: of one length, and so many.
struct Scale {
  Duration whole;
  int columns;

  // The middle of a column: what is drawn there.
  Duration middle(int column) const {
    return Duration(whole.count() / columns * column + whole.count() % columns * column / columns +
                    whole.count() / columns / 2);
  }
};

// The longest stretch of which all begins and ends are multiples.
std::int64_t unit_of(const PipelineSimulation& simulation) {
  std::int64_t unit = simulation.makespan.count();
  for (const auto& stage : simulation.times)
    for (const layout::ActionTime& time : stage)
      unit = std::gcd(std::gcd(unit, time.begin.count()), time.end.count());
  return unit;
}

// Whole columns a unit where they fit; else whatever fits.
Scale scale_of(const PipelineSimulation& simulation, int room) {
  const std::int64_t whole = simulation.makespan.count();
  if (whole == 0) return {Duration{}, 1};
  const std::int64_t units = whole / unit_of(simulation);
  const auto each = static_cast<int>(std::min<std::int64_t>(kWidestUnit, room / units));
  return {simulation.makespan, each > 0 ? static_cast<int>(units) * each : room};
}

// How much of "F12a" is written.
enum class Form { kLetter, kNumber, kChunk };

std::string label(const Cell& cell, Form form) {
  const bool later = form == Form::kLetter && cell.turn > 0;
  std::string text(1, static_cast<char>(later ? cell.letter() - 'A' + 'a' : cell.letter()));
  if (form != Form::kLetter) text += std::to_string(cell.micro_batch);
  if (form == Form::kChunk) text += static_cast<char>('a' + cell.turn % 26);
  return text;
}

struct Run {  // of columns; no cell: idle
  const Cell* cell;
  int columns;
};

std::vector<Run> runs_of(const std::vector<Cell>& row, const Scale& scale) {
  std::vector<Run> runs;
  auto cell = row.begin();
  for (int column = 0; column < scale.columns; ++column) {
    const Duration at = scale.middle(column);
    while (cell != row.end() && cell->time.end <= at) ++cell;
    const Cell* here = cell != row.end() && cell->time.begin <= at ? &*cell : nullptr;
    if (runs.empty() || runs.back().cell != here) runs.push_back({here, 0});
    ++runs.back().columns;
  }
  return runs;
}

// One form for all, where nine cells in ten have room for it.
Form form_of(const std::vector<std::vector<Run>>& rows) {
  const auto fits = [&](Form form) {
    int cells = 0;
    int fitting = 0;
    for (const auto& row : rows) {
      for (const Run& run : row) {
        if (run.cell == nullptr) continue;
        ++cells;
        fitting += run.columns >= static_cast<int>(label(*run.cell, form).size());
      }
    }
    return fitting * 10 >= cells * 9;
  };
  const bool chunks = rows.front().front().cell != nullptr && rows.front().front().cell->turns > 1;
  if (chunks && fits(Form::kChunk)) return Form::kChunk;
  return fits(Form::kNumber) ? Form::kNumber : Form::kLetter;
}

// White on blue, brown and green of the 256 colours; a stage's later chunks on lighter ones.
int ground_of(const Cell& cell) {
  const bool later = cell.turn > 0;
  switch (cell.letter()) {
    case 'F':
      return later ? 67 : 25;
    case 'B':
      return later ? 172 : 130;
    default:
      return later ? 71 : 28;
  }
}

std::string draw(const Run& run, Form form, bool colour) {
  const auto columns = static_cast<std::size_t>(run.columns);
  if (run.cell == nullptr) {
    const std::string dots(columns, '.');
    return colour ? fmt::format("\x1b[2m{}\x1b[0m", dots) : dots;
  }
  std::string text = label(*run.cell, form);
  if (text.size() > columns) text = label(*run.cell, Form::kLetter);
  text.resize(columns, ' ');
  if (!colour) return text;
  return fmt::format("\x1b[48;5;{};97m{}\x1b[0m", ground_of(*run.cell), text);
}

std::string scale_text(const PipelineSimulation& simulation, const Scale& scale, int head) {
  const std::string end = time_text(simulation.makespan);
  if (scale.columns <= static_cast<int>(end.size())) return fmt::format("{:{}}{}\n", "", head, end);
  return fmt::format("{:{}}0{:>{}}\n", "", head, end, scale.columns - 1);
}

}  // namespace

std::string timeline_text(const PipelineSimulation& simulation, const TextStyle& style) {
  const auto cells = cells_of(simulation);
  const auto digits = std::to_string(cells.size() - 1).size();
  const auto head = static_cast<int>(std::string_view("stage ").size() + digits + 2);
  const Scale scale = scale_of(simulation, std::max(style.width, kLeastColumns) - head);
  std::vector<std::vector<Run>> rows;
  rows.reserve(cells.size());
  for (const auto& row : cells) rows.push_back(runs_of(row, scale));
  const Form form = form_of(rows);
  std::string text;
  for (std::size_t stage = 0; stage < rows.size(); ++stage) {
    text += fmt::format("stage {:>{}}  ", stage, digits);
    for (const Run& run : rows[stage]) text += draw(run, form, style.colour);
    text += '\n';
  }
  return text + scale_text(simulation, scale, head);
}

}  // namespace muster::plan
