#include "muster/base/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace muster {

// The libraries behind it load more of their own, which look for symbols among those of everybody.
Result<void*> load_symbol(const Path& library, const char* symbol) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* const found = handle != nullptr ? ::dlsym(handle, symbol) : nullptr;
  if (found != nullptr) return found;
  const char* const reason = ::dlerror();
  return fail(ErrorCode::kUnavailable, fmt::format("{}: {}", library.native(),
                                                   reason != nullptr ? reason : "no reason told"));
}

}  // namespace muster
