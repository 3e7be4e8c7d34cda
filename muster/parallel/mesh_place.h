#pragma once
// A rank in the mesh that its strategy was made for. A value.

#include <cstdint>
#include <vector>

#include "muster/comm/communicator.h"
#include "muster/layout/mesh.h"

namespace muster::parallel {

struct MeshPlace {
  layout::Mesh mesh;
  comm::Group group;  // of the mesh's size

  std::int32_t along(layout::Axis axis) const { return mesh.coordinates(group.rank)[axis]; }
  layout::Mesh::Part part(const std::vector<layout::Axis>& axes) const {
    return mesh.part(group.rank, axes);
  }
  // The same number for all ranks that differ from `rank` along these axes at most, and no others.
  std::int32_t part_of(Rank rank, const std::vector<layout::Axis>& axes) const {
    return mesh.part(rank, axes).color;
  }
  // The first of the ranks that differ from `rank` along these axes at most.
  Rank first_of(Rank rank, const std::vector<layout::Axis>& axes) const {
    return mesh.group(rank, axes).front();
  }
};

}  // namespace muster::parallel
