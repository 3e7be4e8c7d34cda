#include "muster/app/launch/host_watch.h"

#include <memory>
#include <utility>

#include "muster/app/probe/notice.h"

namespace muster::app {

cluster::HostWatch create_host_watch(const job::PreemptionSpec& preemption, Processes& processes,
                                     Files& files, const Logger& log) {
  const ProbeSpec asked{
      .file = preemption.file, .command = preemption.command, .url = preemption.url};
  if (asked.empty()) return {};
  return [asked, every = preemption.every, &processes, &files,
          log](cluster::OnNotice on_notice) -> std::shared_ptr<void> {
    return std::make_shared<Probe>(
        asked, every,
        [on_notice = std::move(on_notice)](const Answer& answer) {
          if (is_notice(answer)) on_notice(answer.from);
        },
        processes, files, log);
  };
}

}  // namespace muster::app
