#pragma once
// What a training loop of a user's own includes for muster::Sampler (data/sampler.h) alone.

#include "muster/data/sampler.h"

namespace muster {

using data::Sampler;

}  // namespace muster
