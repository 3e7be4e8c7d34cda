#pragma once
// Whether an answer says that a host is wanted back.

#include "muster/app/probe/probe.h"

namespace muster::app {

// A file that is there and a command that ends with 0 need not say anything; an address that
// answers without a word says that there is nothing. Nor are these notices, in any case of letters:
// FALSE and NONE, as Google's metadata server answers, and a document of scheduled events that has
// none, as Azure's does.
bool is_notice(const Answer& answer);

// Asks for them and names who gave one, on the probe's thread, each time. Null where nobody is to
// be asked. `processes` and `files` outlive it.
std::unique_ptr<Probe> watch_for_notice(ProbeSpec asked, Duration every,
                                        std::function<void(const std::string& from)> on_notice,
                                        Processes& processes, Files& files, const Logger& log);

}  // namespace muster::app
