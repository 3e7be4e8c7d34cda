#pragma once
// The edge to libtorch's exceptions: inside it they fly, outside they are an Error.

#include <functional>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "muster/base/result.h"

namespace muster::models {

// Runs `body`; what it throws becomes an Error "[operation] first line of the message". Running out
// of memory is kUnavailable, anything else kInternal. LogicFault passes through.
Status catch_torch(std::string_view operation, const std::function<void()>& body);

// The outcome of `body`, a Status or a Result; that of what it throws is the same Error.
template <class Body>
requires(!std::is_void_v<std::invoke_result_t<const Body&>>) auto catch_torch(
    std::string_view operation, const Body& body) -> std::invoke_result_t<const Body&> {
  std::optional<std::invoke_result_t<const Body&>> outcome;
  MUSTER_TRY(catch_torch(operation, [&] { outcome.emplace(body()); }));
  return *std::move(outcome);
}

}  // namespace muster::models
