#pragma once
// Turns errno into an Error, in one way everywhere.

#include <string_view>

#include "muster/base/error.h"

namespace muster {

// What a failed system call means: no such file is kNotFound, a broken promise of the caller's
// kInvalid, everything else (full disk, no permission, broken device, no memory) kUnavailable.
ErrorCode code_of_errno(int number) noexcept;

// "[operation] subject: No space left on device".
Error system_error(std::string_view operation, std::string_view subject, int number);

}  // namespace muster
