#include "muster/data/gzip_copy.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "muster/base/checksum.h"

namespace muster::data {
namespace {

constexpr std::size_t kWorthCaching = std::size_t{1} << 20;  // bytes; less inflates in no time

using Sum = std::uint64_t;  // of all bytes before it

}  // namespace

GzipCopy::GzipCopy(Files& files, Path path) : files_(files), path_(std::move(path)) {}

std::optional<Content> GzipCopy::open() const {
  auto file = files_.map(path_);
  if (!file) return std::nullopt;
  const std::span<const std::byte> all = (*file)->bytes();
  if (all.size() < sizeof(Sum)) return std::nullopt;
  const auto bytes = all.first(all.size() - sizeof(Sum));
  Sum sum = 0;
  std::memcpy(&sum, all.last(sizeof(Sum)).data(), sizeof(Sum));
  if (checksum_of(bytes) != sum) return std::nullopt;
  return Content{bytes, std::shared_ptr<const MappedFile>(std::move(*file))};
}

Content GzipCopy::keep(Content content) const {
  if (content.bytes.size() < kWorthCaching || !write(content.bytes)) return content;
  auto copy = open();
  return copy ? std::move(*copy) : std::move(content);
}

// Under a name of its own first: another process may be writing the same copy.
Status GzipCopy::write(std::span<const std::byte> bytes) const {
  const Path fresh = fresh_name(path_);
  MUSTER_TRY(files_.create_folders(path_.parent_path()));
  Status written = write_to(fresh, bytes);
  if (written) written = files_.rename(fresh, path_);
  if (!written) (void)files_.remove_all(fresh);
  return written;
}

Status GzipCopy::write_to(const Path& path, std::span<const std::byte> bytes) const {
  const Sum sum = checksum_of(bytes);
  MUSTER_ASSIGN(const auto file, files_.open(path, Files::Open::kExclusive));
  MUSTER_TRY(file->append(bytes));
  MUSTER_TRY(file->append(std::as_bytes(std::span(&sum, 1))));
  return file->close();
}

}  // namespace muster::data
