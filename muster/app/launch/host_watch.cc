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
    return watch_for_notice(asked, every, std::move(on_notice), processes, files, log);
  };
}

}  // namespace muster::app
