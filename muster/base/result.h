#pragma once
// Result<T>: a T or an Error. Status: nothing or an Error. For failures that are expected in
// training (peers, network, storage, user files); a broken precondition throws instead (check.h).

#include <tl/expected.hpp>

#include "muster/base/error.h"

namespace muster {

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  explicit(false) Result(Error error) : tl::expected<T, Error>(tl::unexpect, std::move(error)) {}
};

using Status = Result<void>;

inline Status ok() { return {}; }

// A failed Result: `return fail(ErrorCode::kNotFound, fmt::format("[store] no {}", key));`
inline Error fail(ErrorCode code, std::string message, Rank peer = kNoRank) {
  return Error{code, std::move(message), peer};
}

}  // namespace muster

#define MUSTER_CONCAT_INNER(a, b) a##b
#define MUSTER_CONCAT(a, b) MUSTER_CONCAT_INNER(a, b)

// Returns the Error of a failed Status or Result from the enclosing function.
#define MUSTER_TRY(expression) MUSTER_TRY_INNER(expression, MUSTER_CONCAT(muster_status_, __LINE__))
#define MUSTER_TRY_INNER(expression, name)                                                \
  do {                                                                                    \
    if (auto name = (expression); !name) return ::muster::Error(std::move(name).error()); \
  } while (false)

// MUSTER_ASSIGN(auto value, expression): the value, or return the Error.
#define MUSTER_ASSIGN(declaration, expression) \
  MUSTER_ASSIGN_INNER(declaration, expression, MUSTER_CONCAT(muster_result_, __LINE__))
#define MUSTER_ASSIGN_INNER(declaration, expression, name)    \
  auto name = (expression);                                   \
  if (!name) return ::muster::Error(std::move(name).error()); \
  declaration = std::move(*name)
