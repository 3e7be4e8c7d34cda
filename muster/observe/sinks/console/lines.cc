#include "muster/observe/sinks/console/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "muster/base/text_width.h"
#include "muster/base/units.h"
#include "muster/observe/critical_path.h"
#include "muster/observe/number_text.h"

namespace muster::observe {
namespace {

constexpr std::string_view kBold = "1";
constexpr std::string_view kDim = "2";
constexpr std::string_view kRed = "31";
constexpr std::string_view kGreen = "32";
constexpr std::string_view kYellow = "33";
constexpr std::string_view kCyan = "36";

std::string paint(const LineStyle& style, std::string_view code, std::string_view text) {
  return style.colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

std::string labelled(const LineStyle& style, std::string_view label, std::string_view value) {
  return paint(style, kDim, label) + " " + std::string(value);
}

std::string epoch_text(const Progress& progress) {
  const double epochs = progress.run().epochs;
  const double epoch = progress.last().epoch;
  // Where a number of steps ends the run, the epochs that they make are nobody's goal.
  const bool is_goal = epochs >= 1 && std::abs(epochs - std::round(epochs)) < 1e-9;
  return is_goal ? fmt::format("{:.1f}/{:.0f}", epoch, epochs) : fmt::format("{:.2f}", epoch);
}

std::string step_text(const Progress& progress) {
  const std::string step = grouped(to_int(progress.last().step));
  const std::int64_t total = progress.run().total_steps;
  return total > 0 ? step + "/" + grouped(total) : step;
}

std::string bar(const LineStyle& style, double fraction, int cells) {
  const int halves = static_cast<int>(std::floor(fraction * cells * 2));
  std::string full;
  std::string rest;
  for (int i = 0; i < cells; ++i) {
    if (2 * i + 1 < halves)
      full += "━";
    else if (2 * i < halves)
      full += "╸";
    else
      rest += style.colour ? "━" : "·";
  }
  return paint(style, kCyan, full) + paint(style, kDim, rest);
}

struct PhaseLabel {
  Phase phase;
  std::string_view text;
};
constexpr PhaseLabel kPhaseLabels[] = {
    {Phase::kDataWait, "data"},    {Phase::kForward, "fwd"}, {Phase::kBackward, "bwd"},
    {Phase::kExposedComm, "comm"}, {Phase::kUpdate, "upd"},  {Phase::kCheckpointStall, "ckpt"}};

// "fwd 31 bwd 58 comm 4 upd 6 %"; phases that take less than `least` percent are left out.
std::string phases_text(const Progress& progress, const LineStyle& style, int least) {
  std::string text;
  for (const auto& [phase, label] : kPhaseLabels) {
    const int percent = static_cast<int>(std::lround(100 * progress.share(phase).value_or(0)));
    if (percent < least) continue;
    // A phase that training should not notice is pointed at when it costs.
    const bool wasted = phase != Phase::kForward && phase != Phase::kBackward &&
                        phase != Phase::kUpdate && percent >= 15;
    const std::string number = fmt::format("{}", percent);
    text += labelled(style, label, wasted ? paint(style, kYellow, number) : number) + " ";
  }
  return text.empty() ? text : text + paint(style, kDim, "%");
}

struct Segment {
  std::string text;
  int priority;  // 0: always there
};

std::vector<Segment> live_segments(const Progress& progress, const LineStyle& style) {
  std::vector<Segment> segments;
  const auto add = [&segments](std::string text, int priority) {
    if (!text.empty()) segments.push_back({std::move(text), priority});
  };
  const Metrics& row = progress.last();
  add(labelled(style, "epoch", epoch_text(progress)), 4);
  add(labelled(style, "step", step_text(progress)), 3);
  if (const auto loss = row.find(metric::kTrainLoss)) {
    add(labelled(style, "loss", paint(style, kBold, fmt::format("{:.4f}", *loss))), 0);
  }
  if (const auto rate = row.find(metric::kLearningRate)) {
    add(labelled(style, "lr", fmt::format("{:.2e}", *rate)), 5);
  }
  if (const auto rate = progress.samples_per_second()) {
    add(grouped(std::llround(*rate)) + paint(style, kDim, "/s"), 1);
  }
  constexpr int kNarrow = 100;
  add(phases_text(progress, style, style.width < kNarrow ? 10 : 1), 2);
  if (to_int(row.step) == progress.run().total_steps) {
    add(paint(style, kDim, "finishing"), 0);  // the last evaluation and checkpoint
  } else if (const auto left = progress.left()) {
    add(clock_text(*left) + paint(style, kDim, " left"), 0);
  }
  return segments;
}

constexpr int kGap = 2;
constexpr int kResults = 27;  // the column in which those of a run stand at its end

int columns_of(const std::vector<Segment>& segments) {
  int total = 0;
  for (const Segment& segment : segments) total += kGap + columns(segment.text);
  return total;
}

// Takes segments away, least useful first, until the others fit.
void fit(std::vector<Segment>& segments, int room) {
  while (!segments.empty() && columns_of(segments) > room) {
    const auto least = std::ranges::max_element(segments, {}, &Segment::priority);
    segments.erase(least);
  }
}

}  // namespace

std::string live_line(const Progress& progress, const LineStyle& style) {
  constexpr int kMostBar = 32;
  constexpr int kLeastBar = 6;
  const int room = style.width - 3;  // a terminal shows Ctrl-C as two columns behind the line
  const std::optional<double> fraction = progress.fraction();
  const std::string percent =
      fraction ? fmt::format("{:3.0f}%", std::floor(100 * *fraction)) : std::string();
  if (columns(percent) > room) return {};
  if (!progress.has_step()) {
    const std::string text = percent + "  waiting for the first step";
    return columns(text) <= room ? text : percent;
  }
  std::vector<Segment> segments = live_segments(progress, style);
  const int least_bar = fraction && room > 40 ? kLeastBar + kGap : 0;
  fit(segments, room - columns(percent) - least_bar);
  std::string line = percent;
  if (least_bar > 0) {
    const int cells = room - columns(percent) - columns_of(segments) - kGap;
    line += std::string(kGap, ' ') + bar(style, *fraction, std::min(cells, kMostBar));
  }
  for (const Segment& segment : segments) line += std::string(kGap, ' ') + segment.text;
  return line;
}

std::string plain_line(const Progress& progress) {
  const Metrics& row = progress.last();
  std::string line = fmt::format("step {}  epoch {}", step_text(progress), epoch_text(progress));
  if (const auto loss = row.find(metric::kTrainLoss)) line += fmt::format("  loss {:.4f}", *loss);
  if (const auto rate = row.find(metric::kLearningRate)) line += fmt::format("  lr {:.2e}", *rate);
  if (const auto rate = progress.samples_per_second()) {
    line += fmt::format("  {} samples/s", grouped(std::llround(*rate)));
  }
  const std::string phases = phases_text(progress, {}, 1);
  if (!phases.empty()) line += "  " + phases;
  if (const auto left = progress.left()) line += fmt::format("  {} left", clock_text(*left));
  return line;
}

std::string evaluation_line(const Metrics& row, const LineStyle& style) {
  std::string line = fmt::format("{}  step {}  epoch {:.2f}", paint(style, kGreen, "eval"),
                                 grouped(to_int(row.step)), row.epoch);
  int taken = columns(line);
  for (const Metric& metric : row.values) {
    if (!metric.name.starts_with("eval/")) continue;
    const auto [name, value] = metric_text(metric);
    const std::string result = labelled(style, name, paint(style, kBold, value));
    const bool fits = style.width <= 0 || taken + kGap + columns(result) <= style.width;
    line += (fits ? "" : "\n") + std::string(kGap, ' ') + result;
    taken = (fits ? taken : 0) + kGap + columns(result);
  }
  return line;
}

namespace {

std::string fitted_to(const LineStyle& style, std::string_view text) {
  return fitted(text, static_cast<std::size_t>(std::max(style.width, 0)));
}

// What a person copies, a path or a command line, is broken by nobody but the terminal, which knows
// that it is one line.
bool is_to_be_copied(std::string_view note) {
  return note.find('/') != note.npos || note.starts_with("next: ") ||
         note.find(" with: ") != note.npos;
}

}  // namespace

std::string checkpoint_line(const CheckpointWritten& checkpoint, const LineStyle& style) {
  const std::string stall = checkpoint.stall > Duration{0}
                                ? "training stood still for " + format_duration(checkpoint.stall)
                                : "training never stood still";
  const std::string line =
      fmt::format("checkpoint  step {}  {} in {}, {}", grouped(to_int(checkpoint.step)),
                  format_bytes(checkpoint.bytes), format_duration(checkpoint.took), stall);
  return paint(style, kDim, fitted_to(style, line));
}

std::string notice_line(const Notice& notice, const LineStyle& style) {
  const auto marked = [&](std::string_view colour, std::string_view mark) {
    const std::string line = fmt::format("{} {}", mark, notice.text);
    return paint(style, colour, mark) + fitted_to(style, line).substr(mark.size());
  };
  switch (notice.severity) {
    case Severity::kWarning:
      return marked(kYellow, "[WARN]");
    case Severity::kError:
      return marked(kRed, "[ERROR]");
    case Severity::kNote:
      break;
  }
  return is_to_be_copied(notice.text) ? notice.text : fitted_to(style, notice.text);
}

namespace {

// A terminal narrower than the headline gets it in several lines, cut where its parts meet.
std::string broken_headline(std::string_view headline, int width) {
  constexpr std::string_view kJoint = " · ";
  if (width <= 0 || columns(headline) < width) return std::string(headline);
  std::string text;
  int used = 0;
  while (!headline.empty()) {
    const std::string_view part = headline.substr(0, headline.find(kJoint));
    headline.remove_prefix(std::min(headline.size(), part.size() + kJoint.size()));
    const bool fits = used == 0 || used + columns(kJoint) + columns(part) < width;
    if (used > 0) text += fits ? kJoint : "\n  ";
    used = fits ? used + columns(kJoint) + columns(part) : 2 + columns(part);
    text += part;
  }
  return text;
}

}  // namespace

std::string start_lines(const RunStarted& started, const LineStyle& style) {
  std::string text = broken_headline(started.headline, style.width) + "\n";
  if (!started.run_folder.empty()) text += labelled(style, "run", started.run_folder) + "\n";
  if (to_int(started.first_step) > 0) {
    text += fmt::format("resumed after step {}\n", grouped(to_int(started.first_step)));
  }
  return text;
}

std::string result_line(std::string_view name, std::string_view value) {
  return fmt::format("  {:<24} {}\n", name, value);
}

// "stopped after step 27 in 3.3 s: rank 1: the cause", in as many lines as the terminal needs.
std::string end_sentence(const RunEnded& ended, const LineStyle& style) {
  const std::string_view word = ended.completed ? "done" : "stopped";
  std::string text(word);
  text += to_int(ended.step) > 0 ? " after step " + grouped(to_int(ended.step))
                                 : std::string(" before the first step was done");
  text += " in " + format_duration(ended.took);
  // Behind its first line a reason has details, which were told where it happened.
  if (!ended.reason.empty()) text += ": " + ended.reason.substr(0, ended.reason.find('\n'));
  if (style.width > 0) text = wrapped_behind(text, static_cast<std::size_t>(style.width), 2);
  return paint(style, ended.completed ? kGreen : kRed, word) + text.substr(word.size());
}

std::string end_lines(const RunEnded& ended, const RunStarted& started, const LineStyle& style) {
  std::string text = end_sentence(ended, style) + "\n";
  for (const Metric& metric : ended.results) {
    const auto [name, value] = result_text(metric);
    text += result_line(name, paint(style, kBold, value));
  }
  if (std::string path = describe(ended.critical_path); !path.empty()) {
    if (style.width > 0)
      path = wrapped_behind(path, static_cast<std::size_t>(style.width), kResults);
    text += result_line("critical path", path);
  }
  if (!started.run_folder.empty()) text += result_line("run", started.run_folder);
  return text;
}

int columns(std::string_view text) noexcept {
  std::size_t count = 0;
  while (!text.empty()) {
    const auto escape = std::min(text.find('\x1b'), text.size());
    count += display_width(text.substr(0, escape));
    text.remove_prefix(escape);
    text.remove_prefix(text.empty() ? 0 : std::min(text.find('m'), text.size() - 1) + 1);
  }
  return static_cast<int>(count);
}

}  // namespace muster::observe
