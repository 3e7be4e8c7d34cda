#pragma once
// A first job file for data that somebody has looked at, with comments: what `muster init` writes.
// Pure.

#include <string>

#include "muster/app/data/data_look.h"
#include "muster/base/result.h"

namespace muster::cli {

// `path`: as the job names it. kInvalid where there is too little to learn from.
Result<std::string> starter_job(const app::DataFound& found, const std::string& path);

// "60,000 + 10,000 images of 1 × 28 × 28 in 10 classes"
std::string describe(const app::DataFound& found);

}  // namespace muster::cli
