#pragma once
// The axes of strategy.mesh by name. Pure.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "muster/job/spec.h"

namespace muster::job {

struct MeshAxis {
  std::string_view name;
  std::string_view field;
  std::int64_t MeshSpec::*extent;
};
inline constexpr std::array<MeshAxis, 6> kMeshAxes = {{
    {"replicate", "strategy.mesh.replicate", &MeshSpec::replicate},
    {"pipeline", "strategy.mesh.pipeline", &MeshSpec::pipeline},
    {"shard", "strategy.mesh.shard", &MeshSpec::shard},
    {"expert", "strategy.mesh.expert", &MeshSpec::expert},
    {"context", "strategy.mesh.context", &MeshSpec::context},
    {"tensor", "strategy.mesh.tensor", &MeshSpec::tensor},
}};

// As a job writes it: "{replicate: 2, tensor: 4}".
std::string mesh_text(const MeshSpec& mesh);

}  // namespace muster::job
