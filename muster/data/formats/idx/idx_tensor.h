#pragma once
// One IDX file as a tensor [N, …] read row by row.

#include <cstdint>

#include "muster/base/checksum.h"
#include "muster/base/dtype.h"
#include "muster/base/tensor_view.h"
#include "muster/data/gzip.h"

namespace muster::data {

class IdxTensor {  // immutable, so thread-safe
 public:
  // Checks header and length; kCorrupt or kUnsupported, naming the file and the byte.
  static Result<IdxTensor> open(Files& files, const Path& path, const Path& cache);

  DType dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return shape_; }
  std::int64_t rows() const noexcept { return shape_[0]; }

  // Row `index` in the machine's byte order; `into` has exactly its bytes.
  void read_row(std::int64_t index, std::span<std::byte> into) const noexcept;
  // The same where a row is one integer.
  std::int64_t read_integer(std::int64_t index) const noexcept;
  // Type, shape and elements, as contents.h takes them.
  void add_to(Checksum& sum) const noexcept;

 private:
  DType dtype_ = DType::kU8;
  Shape shape_;
  std::int64_t row_bytes_ = 0;
  std::span<const std::byte> elements_;  // big-endian
  std::shared_ptr<const void> owner_;
};

}  // namespace muster::data
