// muster: the command. Everything it touches is handed to it here.
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "muster/cli/application.h"
#include "muster/cli/machine.h"

namespace {

muster::Path own_path(const char* name) {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? muster::Path(name) : path;
}

// 80 where it is none, or does not say.
int columns_of_terminal() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// As in `muster help job | head`: whoever read has seen enough.
bool reader_has_left() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

// What could not be written is not done, however well the rest went.
muster::ExitCode end(muster::ExitCode code, muster::cli::Context& context) {
  if (std::cout.flush() || reader_has_left() || code != muster::ExitCode::kDone) return code;
  return muster::cli::report(
      context, muster::fail(muster::ErrorCode::kUnavailable,
                            "[muster] standard output could not be written; is its disk full?"));
}

}  // namespace

int main(int argc, char** argv) {
  // `muster train job.yaml | head` must not end the training: writing then fails like on a full
  // disk.
  std::signal(SIGPIPE, SIG_IGN);
  muster::cli::Context context{muster::system_files(),
                               muster::system_clock(),
                               muster::cli::system_machine(),
                               std::cout,
                               std::cerr,
                               muster::cli::variables_of(environ),
                               own_path(argv[0]),
                               ::isatty(STDOUT_FILENO) == 1,
                               ::isatty(STDERR_FILENO) == 1,
                               muster::LogFormat::kText,
                               {},
                               columns_of_terminal()};
  try {
    return static_cast<int>(end(muster::cli::run({argv + 1, argv + argc}, context), context));
  } catch (const std::exception& fault) {
    return static_cast<int>(
        muster::cli::report(context, muster::fail(muster::ErrorCode::kInternal, fault.what())));
  }
}
