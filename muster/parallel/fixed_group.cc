#include "muster/parallel/fixed_group.h"

#include <fmt/format.h>

namespace muster::parallel {

Status check_same_place(const comm::Group& made_for, const comm::Group& generation,
                        std::string_view strategy, std::string_view spread) {
  if (generation.size == made_for.size && generation.rank == made_for.rank) return ok();
  return fail(
      ErrorCode::kUnavailable,
      fmt::format("[parallel/{}] {}, this is rank {}; generation {} has it as rank {} of "
                  "{}; go on from a checkpoint: muster train JOB --resume",
                  strategy, fmt::format(fmt::runtime(spread), made_for.size), to_int(made_for.rank),
                  to_int(generation.generation), to_int(generation.rank), generation.size));
}

}  // namespace muster::parallel
