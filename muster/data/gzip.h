#pragma once
// A whole file's bytes, inflated first where it is gzip (RFC 1952).

#include <cstddef>
#include <memory>
#include <span>

#include "muster/base/files.h"

namespace muster::data {

// Read-only bytes and whatever keeps them alive.
struct Content {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// Maps `path`; a gzip file is inflated in one go, its checksum and length verified (kCorrupt). One
// gzip member of up to 4 GiB, nothing after it.
// With a folder `cache` a large file is inflated once: later calls, of other processes too, map the
// copy there and share its memory, after checking it against the checksum in the gzip file. Where
// no copy can be written, the bytes are this process's own.
Result<Content> read_maybe_gzip(Files& files, const Path& path, const Path& cache = {});

}  // namespace muster::data
