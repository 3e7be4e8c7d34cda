#include "muster/app/version/version.h"

#include <fmt/format.h>

namespace muster::app {

std::string_view version() { return MUSTER_VERSION; }

std::string version_and_commit() {
  return fmt::format("muster {} (commit {})", version(), commit());
}

std::string build_version() {
  return version_and_commit() +
         (libtorch().empty() ? " without libtorch" : fmt::format(" with libtorch {}", libtorch()));
}

}  // namespace muster::app
