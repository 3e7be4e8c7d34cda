#pragma once
// An inflated copy of a file, kept in a folder that processes share.

#include <optional>

#include "muster/base/files.h"
#include "muster/data/gzip.h"

namespace muster::data {

// The inflated bytes, and behind them their checksum, by which a copy that is damaged or cut short
// is known. Whose bytes they are is told by the copy's name alone.
class GzipCopy {
 public:
  // `files` outlives the copy; the folder of `path` need not exist.
  GzipCopy(Files& files, Path path);

  // Mapped; nothing where the copy is absent or not what was written.
  std::optional<Content> open() const;

  // The copy of `content` in its place, where it is large enough to be worth one and one can be
  // written; otherwise `content` itself.
  Content keep(Content content) const;

 private:
  Status write(std::span<const std::byte> bytes) const;
  Status write_to(const Path& path, std::span<const std::byte> bytes) const;

  Files& files_;
  const Path path_;
};

}  // namespace muster::data
