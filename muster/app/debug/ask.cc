#include "muster/app/debug/ask.h"

#include <fmt/format.h>

#include <csignal>

#include "muster/app/debug/launcher_process.h"
#include "muster/base/pause.h"
#include "muster/base/process.h"

namespace muster::app {
namespace {

// The launcher waits 3 s for its workers.
constexpr Duration kPatience = std::chrono::seconds(6);
constexpr Duration kLookEvery = std::chrono::milliseconds(20);

std::string text_of(Files& files, const Path& path) { return files.read(path).value_or(""); }

}  // namespace

Result<DebugReport> ask_where(const observe::RunFolder& folder, Files& files, Clock& clock) {
  const std::string before = text_of(files, folder.debug());
  const auto launcher = launcher_process(folder, files);
  if (!launcher && launcher.error().code != ErrorCode::kNotFound) return launcher.error();
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
