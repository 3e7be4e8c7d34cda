#pragma once
// muster-worker --rendezvous: what `muster`, which does without libtorch, has to do with torch's
// store.

#include <iosfwd>

#include "muster/base/exit_code.h"

namespace muster::app {

// Reads a line of cluster::StoreErrand. Rank 0 tells its text and keeps the store until `in` ends;
// the others write the text that they find on standard output. Errors go to standard error.
ExitCode run_store_errand(std::istream& in);

}  // namespace muster::app
