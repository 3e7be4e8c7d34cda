#include "muster/app/debug/launcher_process.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster::app {
namespace {

constexpr std::string_view kTraining[] = {"train", "compare", "resume"};

// Where the lock is another host's, or cannot be tried, the number in it may be anybody's here. A
// program made with muster::App has another name, and knows its own runs.
bool is_launcher(int pid, Files& files) {
  const auto text = [&](std::string_view name) {
    return files.read(fmt::format("/proc/{}/{}", pid, name)).value_or("");
  };
  const std::string words = text("cmdline");
  const auto has = [&](std::string_view word) {
    return words.find(fmt::format("{}{}{}", '\0', word, '\0')) != std::string::npos;
  };
  const std::string program = text("comm");
  const bool trains =
      program == "muster\n" || program == files.read("/proc/self/comm").value_or("");
  return trains && std::ranges::any_of(kTraining, has);
}

}  // namespace

Result<int> launcher_process(const observe::RunFolder& folder, Files& files) {
  MUSTER_ASSIGN(const int launcher, folder.launcher(files));
  if (is_launcher(launcher, files)) return launcher;
  return fail(
      ErrorCode::kUnavailable,
      fmt::format("[run] {} is held by a muster of another host, or cannot be locked here: process "
                  "{} of this host is none; ask on the host of the launcher",
                  folder.root().native(), launcher));
}

}  // namespace muster::app
