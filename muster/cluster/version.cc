#include "muster/cluster/version.h"

#include <fmt/format.h>

#include <string_view>

namespace muster::cluster {

std::string build_version() {
  constexpr std::string_view kTorch = MUSTER_TORCH_VERSION;
  return fmt::format("muster {} {}", MUSTER_VERSION,
                     kTorch.empty() ? "without libtorch" : fmt::format("with libtorch {}", kTorch));
}

}  // namespace muster::cluster
