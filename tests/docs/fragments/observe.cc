// What stands around the block of docs/observe.md: page.py puts it in as block.inc.
#include "muster/base/clock.h"
#include "muster/observe/hub.h"
#include "muster/observe/queued_sink.h"
#include "muster/observe/sinks/console/console.h"
#include "muster/observe/sinks/console/terminal.h"

namespace muster {

void greet(const std::function<std::optional<std::string>(std::string_view)>& environment) {
#include "block.inc"
}

}  // namespace muster
