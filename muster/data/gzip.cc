#include "muster/data/gzip.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <tuple>

#include "muster/base/checksum.h"
#include "muster/base/units.h"
#include "muster/data/gzip_copy.h"

namespace muster::data {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kSmallestMember = 18;  // header and trailer around nothing
constexpr std::size_t kLargestRatio = 1032;  // of deflate; a length beyond it is a lie

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

// The last eight bytes of a file: of its last member, what came out when that was made.
struct Trailer {
  explicit Trailer(Bytes packed)
      : crc(little_endian(packed.last(8))), size(little_endian(packed.last(4))) {}
  std::uint32_t crc;
  std::size_t size;  // modulo 2^32
};

// Members inflated one behind the other.
class Inflater {
 public:
  Inflater(const Path& path, Bytes packed)
      : path_(path),
        packed_(packed),
        decompressor_(libdeflate_alloc_decompressor(), libdeflate_free_decompressor) {}

  Result<Content> inflate() {
    MUSTER_TRY(grow(likely_size()));
    while (is_gzip(rest())) MUSTER_TRY(inflate_member());
    MUSTER_TRY(check_end());
    const std::shared_ptr<const std::byte> owner(std::move(bytes_));
    return Content{{owner.get(), size_}, owner};
  }

  // Afterwards: whether the trailer of the file speaks for all of it.
  bool was_one_member() const noexcept { return members_ == 1 && at_ == packed_.size(); }

 private:
  struct Free {
    void operator()(std::byte* bytes) const noexcept { std::free(bytes); }
  };

  Bytes rest() const noexcept { return packed_.subspan(at_); }

  // What the trailer says, as most files are one member; it is no more than a guess.
  std::size_t likely_size() const noexcept {
    const std::size_t told = Trailer(packed_).size;
    return told > packed_.size() * kLargestRatio ? packed_.size() : std::max(told, packed_.size());
  }

  Status inflate_member();
  Status make_room();
  Status grow(std::size_t capacity);
  Status check_end() const;
  Error damaged() const;

  const Path& path_;
  const Bytes packed_;
  const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> decompressor_;
  std::size_t at_ = 0;  // where the next member begins
  std::int64_t members_ = 0;
  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;  // inflated so far
};

Status Inflater::inflate_member() {
  std::size_t read = 0, written = 0;
  libdeflate_result result = LIBDEFLATE_INSUFFICIENT_SPACE;
  while (result == LIBDEFLATE_INSUFFICIENT_SPACE) {
    result =
        libdeflate_gzip_decompress_ex(decompressor_.get(), rest().data(), rest().size(),
                                      bytes_.get() + size_, capacity_ - size_, &read, &written);
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE) MUSTER_TRY(make_room());
  }
  if (result != LIBDEFLATE_SUCCESS) return damaged();
  at_ += read;
  size_ += written;
  ++members_;
  return ok();
}

// A member is inflated anew from its beginning then; as room doubles, that adds at most twice the
// work.
Status Inflater::make_room() {
  const std::size_t most = size_ + rest().size() * kLargestRatio;
  if (capacity_ >= most) return damaged();
  return grow(std::min(most, 2 * capacity_));
}

// Neither zeroed nor copied where the system can move pages: 47 MB would take as long to clear as a
// tenth of inflating them.
Status Inflater::grow(std::size_t capacity) {
  void* const moved = decompressor_ ? std::realloc(bytes_.get(), capacity) : nullptr;
  if (moved == nullptr) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("[data/gzip] {}: no memory for {} that it may inflate to; give the "
                            "process more, or inflate the file with `gunzip -k`: a plain one is "
                            "mapped",
                            path_.string(), format_bytes(capacity)));
  }
  std::ignore = bytes_.release();  // realloc has freed it
  bytes_.reset(static_cast<std::byte*>(moved));
  capacity_ = capacity;
  return ok();
}

// Zeros fill up the last block of a tape, and gzip(1) takes them too.
Status Inflater::check_end() const {
  const Bytes end = rest();
  const auto stray = std::ranges::find_if(end, [](std::byte byte) { return byte != std::byte{0}; });
  if (stray == end.end()) return ok();
  return fail(ErrorCode::kCorrupt,
              fmt::format("[data/gzip] {}: what begins at byte {} of {} is neither zeros nor a "
                          "gzip member, and {} {} before it; keep the first {} bytes alone "
                          "(`head -c {}`), or fetch the file again",
                          path_.string(), at_ + static_cast<std::size_t>(stray - end.begin()),
                          packed_.size(), counted(members_, "member"),
                          members_ == 1 ? "ends" : "end", at_, at_));
}

Error Inflater::damaged() const {
  return fail(ErrorCode::kCorrupt,
              fmt::format("[data/gzip] {}: gzip member {}, from byte {} of {}, is damaged or cut "
                          "short: its data, checksum or length is wrong; fetch the file again",
                          path_.string(), members_ + 1, at_, packed_.size()));
}

// Nothing but the trailer need be read for it, which tells the content of a file of one member.
std::string name_by_trailer(const Path& path, Bytes packed) {
  const Trailer trailer(packed);
  return fmt::format("{}-{:08x}-{}-{}", path.stem().string(), trailer.crc, trailer.size,
                     packed.size());
}

// For others: the last member tells nothing of those before it, and is often empty.
std::string name_by_all(const Path& path, Bytes packed) {
  return fmt::format("{}-{:016x}-{}", path.stem().string(), checksum_of(packed), packed.size());
}

Result<Content> inflate_once(Files& files, const Path& path, Bytes packed, const Path& cache) {
  const GzipCopy of_one(files, cache / name_by_trailer(path, packed));
  if (auto content = of_one.open()) return std::move(*content);
  const GzipCopy of_many(files, cache / name_by_all(path, packed));
  if (auto content = of_many.open()) return std::move(*content);
  Inflater inflater(path, packed);
  MUSTER_ASSIGN(Content inflated, inflater.inflate());
  return (inflater.was_one_member() ? of_one : of_many).keep(std::move(inflated));
}

// A folder where a file of data should be is wrong with the data, not with who calls.
Result<std::unique_ptr<MappedFile>> map_data(Files& files, const Path& path) {
  auto file = files.map(path);
  if (file || file.error().code != ErrorCode::kInvalid) return file;
  Error error = std::move(file).error();
  error.code = ErrorCode::kUnavailable;
  return error;
}

}  // namespace

Result<Content> read_maybe_gzip(Files& files, const Path& path, const Path& cache) {
  MUSTER_ASSIGN(std::shared_ptr<const MappedFile> file, map_data(files, path));
  const Bytes bytes = file->bytes();
  if (!is_gzip(bytes)) return Content{bytes, std::move(file)};
  if (bytes.size() < kSmallestMember) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("[data/gzip] {}: it ends after {} bytes, and a gzip member has {} at "
                            "least; fetch the file again",
                            path.string(), bytes.size(), kSmallestMember));
  }
  if (cache.empty()) return Inflater(path, bytes).inflate();
  return inflate_once(files, path, bytes, cache);
}

}  // namespace muster::data
