#pragma once
// Whether an answer says that a host is wanted back. Pure.

#include "muster/app/probe/probe.h"

namespace muster::app {

// A file that is there and a command that ends with 0 need not say anything; an address that
// answers without a word says that there is nothing. Nor are these notices, in any case of letters:
// FALSE and NONE, as Google's metadata server answers, and a document of scheduled events that has
// none, as Azure's does.
bool is_notice(const Answer& answer);

}  // namespace muster::app
