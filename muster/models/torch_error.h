#pragma once
// The edge to libtorch's exceptions: inside it they fly, outside they are an Error.

#include <functional>
#include <string_view>

#include "muster/base/result.h"

namespace muster::models {

// Runs `body`; what it throws becomes an Error "[operation] first line of the message". Running out
// of memory is kUnavailable, anything else kInternal. LogicFault passes through.
Status catch_torch(std::string_view operation, const std::function<void()>& body);

}  // namespace muster::models
