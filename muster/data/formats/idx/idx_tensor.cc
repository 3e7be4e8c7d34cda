#include "muster/data/formats/idx/idx_tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "muster/data/contents.h"

namespace muster::data {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kMagicBytes = 4;
constexpr std::size_t kExtentBytes = 4;
constexpr std::size_t kMostAxes = 8;  // video has five; more are a damaged byte

struct Header {
  DType dtype;
  Shape shape;
  std::size_t bytes;
};

Error bad_idx(const Path& path, const std::string& what) {
  return fail(ErrorCode::kCorrupt, fmt::format("[data/idx] {}: {}", path.string(), what));
}

std::uint32_t big_endian(Bytes bytes) noexcept {
  std::uint32_t value = 0;
  for (const std::byte byte : bytes.first(4)) {
    value = (value << 8) | std::to_integer<std::uint32_t>(byte);
  }
  return value;
}

std::optional<DType> element_type(std::byte code) noexcept {
  switch (std::to_integer<int>(code)) {
    case 0x08:
      return DType::kU8;
    case 0x0C:
      return DType::kI32;
    case 0x0D:
      return DType::kF32;
    case 0x0E:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

Result<Header> parse_header(const Path& path, Bytes bytes) {
  if (bytes.size() < kMagicBytes) {
    return bad_idx(path, fmt::format("{} bytes are too few for an IDX header", bytes.size()));
  }
  const std::uint32_t magic = big_endian(bytes);
  if (magic >> 16 != 0) {
    return bad_idx(path,
                   fmt::format("starts with {:#010x}, an IDX file with two zero bytes", magic));
  }
  const std::optional<DType> dtype = element_type(bytes[2]);
  if (!dtype) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("[data/idx] {}: element type {:#04x} at byte 2; known are 0x08 (U8), "
                            "0x0c (I32), 0x0d (F32) and 0x0e (F64)",
                            path.string(), std::to_integer<int>(bytes[2])));
  }
  const auto rank = std::to_integer<std::size_t>(bytes[3]);
  if (rank == 0) return bad_idx(path, "a rank of 0 at byte 3; samples need a first axis");
  if (rank > kMostAxes) {
    return bad_idx(path, fmt::format("a rank of {} ({:#04x}) at byte 3, which counts the axes; at "
                                     "most {} are read: is the file damaged? Get it again",
                                     rank, rank, kMostAxes));
  }
  Header header{*dtype, {}, kMagicBytes + rank * kExtentBytes};
  if (bytes.size() < header.bytes) {
    return bad_idx(path, fmt::format("ends within its header of {} bytes", header.bytes));
  }
  for (std::size_t axis = 0; axis < rank; ++axis) {
    header.shape.push_back(big_endian(bytes.subspan(kMagicBytes + axis * kExtentBytes)));
  }
  return header;
}

// Nothing where the product does not fit.
std::optional<std::uint64_t> bytes_of(DType dtype, const Shape& shape) noexcept {
  std::uint64_t bytes = size_of(dtype);
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

Status check_length(const Path& path, const Header& header, std::size_t actual) {
  const std::optional<std::uint64_t> expected = bytes_of(header.dtype, header.shape);
  if (expected == actual) return ok();
  const std::string_view trouble =
      expected && *expected < actual ? "more bytes follow" : "it is truncated";
  return bad_idx(path,
                 fmt::format("its header says {} [{}], {} bytes, but {} are there: {}",
                             to_string(header.dtype), fmt::join(header.shape, ", "),
                             expected ? std::to_string(*expected) : "too many", actual, trouble));
}

}  // namespace

Result<IdxTensor> IdxTensor::open(Files& files, const Path& path, const Path& cache) {
  MUSTER_ASSIGN(Content content, read_maybe_gzip(files, path, cache));
  MUSTER_ASSIGN(Header header, parse_header(path, content.bytes));
  MUSTER_TRY(check_length(path, header, content.bytes.size() - header.bytes));
  IdxTensor tensor;
  tensor.dtype_ = header.dtype;
  tensor.shape_ = std::move(header.shape);
  tensor.elements_ = content.bytes.subspan(header.bytes);
  tensor.owner_ = std::move(content.owner);
  if (tensor.rows() > 0) {
    tensor.row_bytes_ = static_cast<std::int64_t>(tensor.elements_.size()) / tensor.rows();
  }
  return tensor;
}

void IdxTensor::read_row(std::int64_t index, std::span<std::byte> into) const noexcept {
  std::memcpy(into.data(), elements_.data() + index * row_bytes_, into.size());
  const std::size_t element = size_of(dtype_);
  if (element == 1) return;
  for (auto place = into.begin(); place != into.end(); place += static_cast<long>(element)) {
    std::reverse(place, place + static_cast<long>(element));
  }
}

std::int64_t IdxTensor::read_integer(std::int64_t index) const noexcept {
  const Bytes row = elements_.subspan(static_cast<std::size_t>(index * row_bytes_));
  if (dtype_ == DType::kU8) return std::to_integer<std::int64_t>(row[0]);
  return static_cast<std::int32_t>(big_endian(row));
}

void IdxTensor::add_to(Checksum& sum) const noexcept {
  sum.add(std::as_bytes(std::span(&dtype_, 1)));
  sum.add(std::as_bytes(std::span(shape_)));
  add_contents(sum, elements_);
}

}  // namespace muster::data
