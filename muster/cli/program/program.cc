#include "muster/cli/program/program.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/exception_error.h"
#include "muster/base/process.h"
#include "muster/cli/application.h"
#include "muster/cli/machine.h"

namespace muster::cli {
namespace {

Path own_path(const char* name) {
  const Path path = this_program();
  return path.empty() ? Path(name) : path;
}

// 80 columns and 24 lines where it is none, or does not say.
winsize size_of_terminal(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0) size = {};
  if (size.ws_col == 0) size.ws_col = 80;
  if (size.ws_row == 0) size.ws_row = 24;
  return size;
}

// As in `muster help job | head`: whoever read has seen enough.
bool reader_has_left() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

// What could not be written is not done, however well the rest went.
ExitCode end(ExitCode code, Context& context) {
  if (std::cout.flush() || reader_has_left() || code != ExitCode::kDone) return code;
  return report(context, fail(ErrorCode::kUnavailable,
                              "[muster] standard output could not be written; is its disk full?"));
}

}  // namespace

int run_program(int argc, char** argv, const ProgramOptions& options) {
  // `muster train job.yaml | head` must not end the training: writing then fails like on a full
  // disk.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond ulimit -f fails, and says so
  const winsize terminal = size_of_terminal(STDOUT_FILENO);
  auto environment = variables_of(environ);
  const bool is_launchers = is_terminal_of_launcher(environment);
  Context context{system_files(),
                  system_clock(),
                  system_machine(),
                  std::cout,
                  std::cerr,
                  std::move(environment),
                  own_path(argv[0]),
                  !is_launchers && ::isatty(STDOUT_FILENO) == 1,
                  !is_launchers && ::isatty(STDERR_FILENO) == 1,
                  LogFormat::kText,
                  {},
                  terminal.ws_col,
                  terminal.ws_row,
                  size_of_terminal(STDERR_FILENO).ws_col,
                  options.fields,
                  options.is_worker};
  try {
    if (!options.usable) return static_cast<int>(report(context, options.usable.error()));
    return static_cast<int>(end(run({argv + 1, argv + argc}, context), context));
  } catch (const std::exception& fault) {
    return static_cast<int>(report(context, error_from_exception("muster", fault)));
  }
}

}  // namespace muster::cli
