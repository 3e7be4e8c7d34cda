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

// Maps `path`; a gzip file is inflated whole: all its members, one behind the other, as `cat` and
// bgzip make them. kCorrupt, with the place, for a member whose checksum or length is wrong, and
// for anything behind the last one but zeros; kUnavailable where memory does not suffice. With a
// folder `cache` a large file is inflated once: later calls, of other processes too, map the copy
// there and share its memory, after checking it against its checksum. A file of one member is known
// by its size and trailer, any other is read for it. Where no copy can be written, the bytes are
// this process's own.
Result<Content> read_maybe_gzip(Files& files, const Path& path, const Path& cache = {});

}  // namespace muster::data
