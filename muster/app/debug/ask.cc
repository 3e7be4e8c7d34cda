#include "muster/app/debug/ask.h"

#include <fmt/format.h>

#include <csignal>

#include "muster/base/pause.h"
#include "muster/base/process.h"

namespace muster::app {
namespace {

// The launcher waits 3 s for its workers.
constexpr Duration kPatience = std::chrono::seconds(6);
constexpr Duration kLookEvery = std::chrono::milliseconds(20);

std::string text_of(Files& files, const Path& path) { return files.read(path).value_or(""); }

// Whoever is none would die of the signal: where the lock is another host's, or cannot be tried,
// the number in it may be anybody's here.
bool is_launcher(int pid, Files& files) {
  const std::string words = text_of(files, fmt::format("/proc/{}/cmdline", pid));
  const auto has = [&](std::string_view word) {
    return words.find(fmt::format("{}{}{}", '\0', word, '\0')) != std::string::npos;
  };
  return text_of(files, fmt::format("/proc/{}/comm", pid)) == "muster\n" &&
         (has("train") || has("compare"));
}

}  // namespace

Result<DebugReport> ask_where(const observe::RunFolder& folder, Files& files, Clock& clock) {
  const std::string before = text_of(files, folder.debug());
  const auto launcher = folder.launcher(files);
  if (!launcher) {
    if (!before.empty()) {
      auto kept = debug_report_from_json(before);
      if (kept) return kept;
      return with_context(kept.error(), folder.debug().native());
    }
    return fail(ErrorCode::kNotFound, launcher.error().message +
                                          ", and it did not fail while somebody waited: there is "
                                          "nothing to show");
  }
  if (!is_launcher(*launcher, files))
    return fail(
        ErrorCode::kUnavailable,
        fmt::format("[debug] {} is held by a muster of another host, or cannot be locked here: "
                    "process {} of this host is none; ask on the host of the launcher",
                    folder.root().native(), *launcher));
  MUSTER_TRY(send_signal(*launcher, SIGUSR2));
  const Deadline deadline = Deadline::after(clock, kPatience);
  while (!deadline.passed(clock)) {
    pause(clock, kLookEvery);
    const std::string now = text_of(files, folder.debug());
    if (!now.empty() && now != before) return debug_report_from_json(now);
  }
  return fail(ErrorCode::kTimeout,
              fmt::format("[debug] the launcher (pid {}) of {} has not answered within {} s; is it "
                          "stopped?",
                          *launcher, folder.root().native(),
                          std::chrono::duration_cast<std::chrono::seconds>(kPatience).count()));
}

}  // namespace muster::app
