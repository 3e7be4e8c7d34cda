#pragma once
// Records as bytes (CBOR, RFC 8949), for the control channel from the worker that has the loss to
// the launcher, where the sinks live. Pure.

#include <cstddef>
#include <span>
#include <vector>

#include "muster/base/result.h"
#include "muster/observe/event.h"

namespace muster::observe {

std::vector<std::byte> encode(std::span<const Record> records);

// kCorrupt for anything that encode() did not write; never throws, whatever the bytes.
Result<std::vector<Record>> decode(std::span<const std::byte> bytes);

}  // namespace muster::observe
