#pragma once
// Tells one set of data from another by its bytes, in a time that no start notices.

#include <cstddef>
#include <span>

#include "muster/base/checksum.h"

namespace muster::data {

// Adds how many bytes these are and the bytes themselves; of more than 16 MiB only 64 pieces of
// 256 KiB, evenly spread, the first and the last of them: 5 to 10 ms where they are in memory.
void add_contents(Checksum& sum, std::span<const std::byte> bytes) noexcept;

}  // namespace muster::data
