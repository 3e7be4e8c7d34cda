#pragma once
// Logging of what strangers can make happen as often as they like.

#include <bit>
#include <cstdint>
#include <string>

#include "muster/base/log.h"

namespace muster::net {

// Warns the first 16 times, then at each power of two, saying how often.
inline void log_often(spdlog::logger& log, std::uint64_t count, const std::string& text) {
  if (count <= 16)
    log.warn("{}", text);
  else if (std::has_single_bit(count))
    log.warn("{} ({} times so far)", text, count);
}

}  // namespace muster::net
