#pragma once
// Libraries that are loaded while the program runs, because a machine may have them or not. One
// that was loaded stays. Thread-safe.

#include "muster/base/files.h"
#include "muster/base/result.h"

namespace muster {

// The address of `symbol` in `library`, which is loaded with all that it needs itself.
// kUnavailable, with the loader's reason.
Result<void*> load_symbol(const Path& library, const char* symbol);

}  // namespace muster
