#pragma once
// Source: samples by number. A sample is a fixed list of named tensors of fixed shapes; formats
// (formats/idx, formats/text, …) are leaves that create one.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "muster/base/dtype.h"
#include "muster/base/result.h"
#include "muster/base/tensor_view.h"

namespace muster::data {

struct FieldSpec {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;  // of one sample, without a batch axis
  friend bool operator==(const FieldSpec&, const FieldSpec&) = default;
};

std::string describe(const FieldSpec& field);             // "image U8 [1, 28, 28]"
std::int64_t byte_size(const FieldSpec& field) noexcept;  // of one sample

class Source {  // immutable, so thread-safe
 public:
  virtual ~Source() = default;
  virtual std::int64_t size() const noexcept = 0;  // samples
  virtual const std::vector<FieldSpec>& fields() const noexcept = 0;

  // Writes sample `index`, 0 <= index < size(), into one tensor for each of fields(), in their
  // order. Errors name the place in the underlying file, not the index: the caller adds that.
  virtual Status read(std::int64_t index, std::span<const TensorView> into) const = 0;

  // Of what the samples are, alike in every process; 0: it does not tell.
  virtual std::uint64_t fingerprint() const noexcept { return 0; }
};

using SourcePtr = std::shared_ptr<const Source>;

}  // namespace muster::data
