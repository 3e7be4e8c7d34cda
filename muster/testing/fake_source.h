#pragma once
// Sources for tests, with content that shows misplacement.

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "muster/data/source.h"

namespace muster::data {

class FakeSource final : public Source {
 public:
  FakeSource(std::int64_t size, std::vector<FieldSpec> fields, std::int64_t broken)
      : size_(size), broken_(broken), fields_(std::move(fields)) {}

  std::int64_t size() const noexcept override { return size_; }
  const std::vector<FieldSpec>& fields() const noexcept override { return fields_; }

  Status read(std::int64_t index, std::span<const TensorView> into) const override {
    if (index == broken_) return fail(ErrorCode::kCorrupt, "[test/source] unreadable");
    for (std::size_t field = 0; field < fields_.size(); ++field) fill(index, into[field]);
    return ok();
  }

 private:
  static void fill(std::int64_t index, const TensorView& view) {
    if (view.dtype == DType::kI64) {
      for (std::int64_t& value : view.as<std::int64_t>()) value = index;
      return;
    }
    std::size_t place = 0;
    for (std::byte& byte : view.bytes) {
      byte = static_cast<std::byte>(static_cast<std::size_t>(index) * 31 + place++);
    }
  }

  std::int64_t size_;
  std::int64_t broken_;
  std::vector<FieldSpec> fields_;
};

// "image" U8 of `shape`, byte j of sample i is i * 31 + j; "label" I64 [], i.
inline SourcePtr fake_images(std::int64_t size, Shape shape) {
  return std::make_shared<FakeSource>(
      size,
      std::vector<FieldSpec>{{"image", DType::kU8, std::move(shape)}, {"label", DType::kI64, {}}},
      -1);
}

// "label" I64 [], i; reading sample `broken` fails.
inline SourcePtr fake_labels(std::int64_t size, std::int64_t broken = -1) {
  return std::make_shared<FakeSource>(size, std::vector<FieldSpec>{{"label", DType::kI64, {}}},
                                      broken);
}

}  // namespace muster::data
