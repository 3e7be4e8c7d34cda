#pragma once
// For tests that try very many cases: a sanitizer makes each ten times slower, and finds in a part
// of them what it would find in all. Every case is tried without one.

namespace muster {

#if defined(MUSTER_SANITIZED)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace muster
