#include "muster/data/formats/idx/gzip.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include <cstdint>
#include <string_view>

namespace muster::data {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kSmallestMember = 18;  // header and trailer around nothing
constexpr std::size_t kLargestRatio = 1032;  // of deflate; a length beyond it is a lie

bool is_gzip(Bytes bytes) noexcept {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

// The inflated length modulo 2^32, from the trailer.
std::size_t announced_size(Bytes bytes) noexcept {
  const Bytes trailer = bytes.last(4);
  std::size_t size = 0;
  for (std::size_t i = 0; i < 4; ++i) size |= std::to_integer<std::size_t>(trailer[i]) << (8 * i);
  return size;
}

Error corrupt(const Path& path, std::string_view what) {
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

Result<Content> inflate(const Path& path, Bytes packed) {
  if (packed.size() < kSmallestMember) return corrupt(path, "it ends within the gzip header");
  const std::size_t size = announced_size(packed);
  if (size > packed.size() * kLargestRatio) {
    return corrupt(path, describe(LIBDEFLATE_INSUFFICIENT_SPACE));
  }
  // Not zeroed: 47 MB would take as long to clear as a tenth of inflating them.
  const std::shared_ptr<std::byte[]> inflated(new std::byte[size]);
  const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> decompressor(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  if (!decompressor) return fail(ErrorCode::kUnavailable, "[data/gzip] out of memory");
  std::size_t consumed = 0;
  const libdeflate_result result = libdeflate_gzip_decompress_ex(
      decompressor.get(), packed.data(), packed.size(), inflated.get(), size, &consumed, nullptr);
  if (result != LIBDEFLATE_SUCCESS) return corrupt(path, describe(result));
  if (consumed != packed.size()) return corrupt(path, "more bytes follow the compressed data");
  return Content{{inflated.get(), size}, inflated};
}

}  // namespace

Result<Content> read_maybe_gzip(Files& files, const Path& path) {
  MUSTER_ASSIGN(std::shared_ptr<const MappedFile> file, files.map(path));
  const Bytes bytes = file->bytes();
  if (!is_gzip(bytes)) return Content{bytes, std::move(file)};
  return inflate(path, bytes);
}

}  // namespace muster::data
