#include "muster/job/mesh_axes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace muster::job {

std::string mesh_text(const MeshSpec& mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : kMeshAxes)
    if (mesh.*axis.extent != 1) axes.push_back(fmt::format("{}: {}", axis.name, mesh.*axis.extent));
  return fmt::format("{{{}}}", fmt::join(axes, ", "));
}

}  // namespace muster::job
