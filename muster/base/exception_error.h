#pragma once
// Turns exceptions into Errors, in one way everywhere: where a program ends, and at the begin of a
// thread, which nobody else catches them from.

#include <exception>
#include <string_view>

#include "muster/base/result.h"

namespace muster {

// What to do where no further thread or process can be had.
inline constexpr std::string_view kRaiseProcessLimit = "raise the limit of processes (ulimit -u)";

// kUnavailable where memory, a thread or a process could not be had, which the message says how to
// get; everything else is a mistake: kInternal. "[operation] what".
Error error_from_exception(std::string_view operation, const std::exception& exception);

// The outcome of `body`, a Status or a Result; that of what it throws is an error.
template <class Body>
auto without_exceptions(std::string_view operation, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& exception) {
    return error_from_exception(operation, exception);
  }
}

}  // namespace muster
