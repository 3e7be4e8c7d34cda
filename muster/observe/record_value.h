#pragma once
// Records as JSON values: what the codec and the JSON lines have in common. For this folder's .cc
// files only. Times are Unix seconds to the microsecond; numbers that are not finite become null in
// text and come back as NaN.

#include <nlohmann/json.hpp>

#include "muster/base/result.h"
#include "muster/observe/event.h"

namespace muster::observe {

using Value = nlohmann::ordered_json;

Value to_value(const Record& record);
Result<Record> from_value(const Value& value);

}  // namespace muster::observe
