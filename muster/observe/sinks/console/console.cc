#include "muster/observe/sinks/console/console.h"

#include <mutex>

#include "muster/observe/record_json.h"
#include "muster/observe/sinks/console/lines.h"

namespace muster::observe {
namespace {

constexpr std::string_view kClearLine = "\r\x1b[K";

std::string with_end(std::string text) {
  if (text.empty() || text.back() != '\n') text += '\n';
  return text;
}

class JsonConsole final : public Sink {
 public:
  explicit JsonConsole(Terminal& terminal) : terminal_(terminal) {}

  void take(const Record& record) noexcept override {
    if (std::holds_alternative<Span>(record)) return;
    const std::lock_guard lock(mutex_);
    terminal_.write(to_json_line(record) + "\n");
  }

 private:
  std::mutex mutex_;
  Terminal& terminal_;
};

class TextConsole final : public Sink {
 public:
  TextConsole(Terminal& terminal, const Clock& clock, const ConsoleOptions& options)
      : terminal_(terminal), clock_(clock), options_(options) {}

  ~TextConsole() override {
    if (drawn_) terminal_.write(kClearLine);
  }

  void take(const Record& record) noexcept override {
    const std::lock_guard lock(mutex_);
    std::visit([this](const auto& one) { show(one); }, record);
  }

 private:
  bool is_live() const noexcept { return options_.format == ConsoleFormat::kLive; }
  LineStyle style() const { return {options_.colour, is_live() ? terminal_.width() : 0}; }

  void show(const RunStarted& started) {
    progress_.take(started);
    running_ = true;
    print(start_lines(started, style()));
  }

  void show(const Metrics& row) {
    progress_.take(row);
    if (row.is_evaluation()) return print(evaluation_line(row, style()));
    if (is_live()) return draw_if_due();
    if (is_due_for_a_line(row)) print(plain_line(progress_));
  }

  void show(const Span&) {}
  void show(const StepCommitted&) {}
  void show(const WentBack&) {}
  void show(const CheckpointWritten& checkpoint) { print(checkpoint_line(checkpoint, style())); }
  void show(const Notice& notice) { print(notice_line(notice, style())); }

  void show(const RunEnded& ended) {
    running_ = false;
    print(end_lines(ended, progress_.run(), style()));
  }

  bool is_due_for_a_line(const Metrics& row) const {
    const RunStarted& run = progress_.run();
    const bool first = row.step == next(run.first_step);
    const bool last = to_int(row.step) == run.total_steps;
    return first || last ||
           to_int(row.step) % std::max<std::int64_t>(1, options_.logging_steps) == 0;
  }

  // The live line goes away, `text` takes its place, and the line comes back below.
  void print(std::string text) {
    text = with_end(std::move(text));
    if (drawn_) text.insert(0, kClearLine);
    drawn_ = false;
    if (is_live() && running_) text += live_text();
    terminal_.write(text);
  }

  void draw_if_due() {
    const TimePoint now = clock_.now();
    if (drawn_ && now < last_drawn_ + options_.redraw_interval) return;
    last_drawn_ = now;
    terminal_.write(live_text());
  }

  std::string live_text() {
    drawn_ = true;
    return std::string(kClearLine) + live_line(progress_, style());
  }

  std::mutex mutex_;
  Terminal& terminal_;
  const Clock& clock_;
  const ConsoleOptions options_;
  Progress progress_;
  bool running_ = false;
  bool drawn_ = false;  // the live line stands on the terminal's last line
  TimePoint last_drawn_{};
};

}  // namespace

ConsoleOptions choose_console(
    bool is_terminal,
    const std::function<std::optional<std::string>(std::string_view)>& environment) {
  const auto is_set = [&environment](std::string_view name) {
    return !environment(name).value_or("").empty();
  };
  const bool dumb = environment("TERM") == "dumb";
  const bool live = is_terminal && !dumb && !is_set("CI");
  ConsoleOptions options;
  options.format = live ? ConsoleFormat::kLive : ConsoleFormat::kPlain;
  options.colour = live && !is_set("NO_COLOR");
  return options;
}

std::shared_ptr<Sink> create_console_sink(Terminal& terminal, const Clock& clock,
                                          const ConsoleOptions& options) {
  if (options.format == ConsoleFormat::kJson) return std::make_shared<JsonConsole>(terminal);
  return std::make_shared<TextConsole>(terminal, clock, options);
}

}  // namespace muster::observe
