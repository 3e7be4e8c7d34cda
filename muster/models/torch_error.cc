#include "muster/models/torch_error.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <new>

#include "muster/base/check.h"
#include "muster/base/exception_error.h"

namespace muster::models {
namespace {

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

Error error_from(ErrorCode code, std::string_view operation, std::string_view what) {
  const std::string_view help =
      code == ErrorCode::kUnavailable
          ? "; a smaller model or micro-batch, or fewer lanes and workers "
            "on this host, need less memory"
          : "";
  return fail(code, fmt::format("[{}] {}{}", operation, first_line(what), help));
}

// The CPU allocator reports exhaustion as a plain c10::Error.
bool is_out_of_memory(const c10::Error& error) {
  const std::string_view what = error.what_without_backtrace();
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         what.find("not enough memory") != std::string_view::npos ||
         what.find("can't allocate memory") != std::string_view::npos ||
         what.find("size calculation overflowed") != std::string_view::npos;
}

}  // namespace

Status catch_torch(std::string_view operation, const std::function<void()>& body) {
  try {
    body();
    return ok();
  } catch (const LogicFault&) {
    throw;
  } catch (const c10::Error& error) {
    return error_from(is_out_of_memory(error) ? ErrorCode::kUnavailable : ErrorCode::kInternal,
                      operation, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return error_from(ErrorCode::kUnavailable, operation, "not enough memory");
  } catch (const std::exception& error) {
    Error told = error_from_exception(operation, error);
    told.message = first_line(told.message);
    return told;
  }
}

}  // namespace muster::models
