#pragma once
// What a person sees of a run. On a terminal one line that is drawn again and again, everything
// else above it; into a pipe plain lines; or JSON lines.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/observe/hub.h"
#include "muster/observe/sinks/console/terminal.h"

namespace muster::observe {

enum class ConsoleFormat : std::uint8_t { kLive, kPlain, kJson };

struct ConsoleOptions {
  ConsoleFormat format = ConsoleFormat::kPlain;
  bool colour = false;
  std::int64_t logging_steps = 10;  // plain lines: one every so many steps
  Duration redraw_interval = std::chrono::milliseconds(100);
};

// What suits the output: kLive on a terminal, else kPlain; NO_COLOR, CI and TERM=dumb honoured
// (https://no-color.org). `environment` returns a variable's value or nothing.
ConsoleOptions choose_console(
    bool is_terminal,
    const std::function<std::optional<std::string>(std::string_view)>& environment);

// Writes to `terminal`, from whichever thread takes records. Other lines that must appear among its
// own (workers' logs) go through it as Notices. Both references outlive the sink.
std::shared_ptr<Sink> create_console_sink(Terminal& terminal, const Clock& clock,
                                          const ConsoleOptions& options);

}  // namespace muster::observe
