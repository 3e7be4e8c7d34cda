// muster: the command. Everything it touches is handed to it here.
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
                               {}};
  try {
    return static_cast<int>(muster::cli::run({argv + 1, argv + argc}, context));
  } catch (const std::exception& fault) {
    return static_cast<int>(
        muster::cli::report(context, muster::fail(muster::ErrorCode::kInternal, fault.what())));
  }
}
