#pragma once
// The data: a file with the water level of every hour, in metres, a line each.

#include <muster/app.h>

namespace tides {

// Samples: `input` F32 [hours], `target` F32 [1]. The last fifth of the file is for validation.
muster::Result<muster::data::SourcePtr> open_levels(const muster::DataRequest& request);

}  // namespace tides
