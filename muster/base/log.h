#pragma once
// Logging (spdlog). A logger is passed in, never global, so that two ranks in one process keep
// separate logs. Thread-safe.

#include <spdlog/spdlog.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace muster {

using Logger = std::shared_ptr<spdlog::logger>;

enum class LogFormat : std::uint8_t { kText, kJson };

// Writes lines to stderr, each whole: "[WARN] text" (information has no mark) or one JSON object.
// `width`: columns of the terminal that it is, in which texts are broken at blanks; 0: it is none.
Logger create_stderr_logger(LogFormat format = LogFormat::kText, std::size_t width = 0);

// For tests and for those who do not want to hear.
Logger create_null_logger();

}  // namespace muster
