#include "muster/app/version/version.h"

#include <fmt/format.h>

namespace muster::app {

std::string build_version() {
  return fmt::format(
      "muster {} (commit {}) {}", MUSTER_VERSION, commit(),
      libtorch().empty() ? "without libtorch" : fmt::format("with libtorch {}", libtorch()));
}

}  // namespace muster::app
