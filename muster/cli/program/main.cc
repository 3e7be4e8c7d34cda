// muster: the command. Everything it touches is handed to it here.
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
    return static_cast<int>(muster::cli::run({argv + 1, argv + argc}, context));
  } catch (const std::exception& fault) {
    return static_cast<int>(
        muster::cli::report(context, muster::fail(muster::ErrorCode::kInternal, fault.what())));
  }
}
