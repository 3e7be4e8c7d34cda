#include "muster/data/gzip.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace muster::data {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kSmallestMember = 18;  // header and trailer around nothing
constexpr std::size_t kLargestRatio = 1032;  // of deflate; a length beyond it is a lie
constexpr std::size_t kWorthCaching = std::size_t{1} << 20;  // bytes; less inflates in no time

bool is_gzip(Bytes bytes) noexcept {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

std::uint32_t little_endian(Bytes bytes) noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= std::to_integer<std::uint32_t>(bytes[i]) << (8 * i);
  }
  return value;
}

// The last eight bytes of a gzip file: what came out when it was made.
struct Trailer {
  explicit Trailer(Bytes packed)
      : crc(little_endian(packed.last(8))), size(little_endian(packed.last(4))) {}
  std::uint32_t crc;
  std::size_t size;  // modulo 2^32
};

Error bad_gzip(const Path& path, std::string_view what) {
  return fail(ErrorCode::kCorrupt,
              fmt::format("[data/gzip] {}: {}; fetch the file again", path.string(), what));
}

std::string_view describe(libdeflate_result result) noexcept {
  switch (result) {
    case LIBDEFLATE_BAD_DATA:
      return "the compressed data or its checksum is wrong";
    case LIBDEFLATE_SHORT_OUTPUT:
    case LIBDEFLATE_INSUFFICIENT_SPACE:
      return "the length in its trailer is wrong (truncated?)";
    case LIBDEFLATE_SUCCESS:
      break;
  }
  return "inflated";
}

Result<Content> inflate(const Path& path, Bytes packed, std::size_t size) {
  if (size > packed.size() * kLargestRatio) {
    return bad_gzip(path, describe(LIBDEFLATE_INSUFFICIENT_SPACE));
  }
  // Not zeroed: 47 MB would take as long to clear as a tenth of inflating them.
  const std::shared_ptr<std::byte[]> inflated(new std::byte[size]);
  const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> decompressor(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  if (!decompressor) return fail(ErrorCode::kUnavailable, "[data/gzip] out of memory");
  std::size_t consumed = 0;
  const libdeflate_result result = libdeflate_gzip_decompress_ex(
      decompressor.get(), packed.data(), packed.size(), inflated.get(), size, &consumed, nullptr);
  if (result != LIBDEFLATE_SUCCESS) return bad_gzip(path, describe(result));
  if (consumed != packed.size()) return bad_gzip(path, "more bytes follow the compressed data");
  return Content{{inflated.get(), size}, inflated};
}

// The inflated copy of one gzip file in a folder that processes share.
class CachedCopy {
 public:
  CachedCopy(Files& files, const Path& folder, const Path& original, Trailer trailer)
      : files_(files),
        folder_(folder),
        path_(folder /
              fmt::format("{}-{:08x}-{}", original.stem().string(), trailer.crc, trailer.size)),
        trailer_(trailer) {}

  // Nothing where it is absent or not what the gzip file holds.
  std::optional<Content> open() const {
    auto file = files_.map(path_);
    if (!file) return std::nullopt;
    const Bytes bytes = (*file)->bytes();
    if (bytes.size() != trailer_.size ||
        libdeflate_crc32(0, bytes.data(), bytes.size()) != trailer_.crc) {
      return std::nullopt;
    }
    return Content{bytes, std::shared_ptr<const MappedFile>(std::move(*file))};
  }

  // Under a name of its own first: another process may be writing the same copy.
  Status write(Bytes bytes) const {
    const Path fresh = fresh_name(path_);
    MUSTER_TRY(files_.create_folders(folder_));
    Status written = write_to(fresh, bytes);
    if (written) written = files_.rename(fresh, path_);
    if (!written) (void)files_.remove_all(fresh);
    return written;
  }

 private:
  Status write_to(const Path& path, Bytes bytes) const {
    MUSTER_ASSIGN(const auto file, files_.open(path, Files::Open::kExclusive));
    MUSTER_TRY(file->append(bytes));
    return file->close();
  }

  Files& files_;
  const Path folder_;
  const Path path_;
  const Trailer trailer_;
};

}  // namespace

Result<Content> read_maybe_gzip(Files& files, const Path& path, const Path& cache) {
  MUSTER_ASSIGN(std::shared_ptr<const MappedFile> file, files.map(path));
  const Bytes bytes = file->bytes();
  if (!is_gzip(bytes)) return Content{bytes, std::move(file)};
  if (bytes.size() < kSmallestMember) return bad_gzip(path, "it ends within the gzip header");
  const Trailer trailer(bytes);
  if (cache.empty() || trailer.size < kWorthCaching) return inflate(path, bytes, trailer.size);
  const CachedCopy copy(files, cache, path, trailer);
  if (auto content = copy.open()) return std::move(*content);
  MUSTER_ASSIGN(Content inflated, inflate(path, bytes, trailer.size));
  if (!copy.write(inflated.bytes)) return inflated;
  auto content = copy.open();
  return content ? std::move(*content) : std::move(inflated);
}

}  // namespace muster::data
