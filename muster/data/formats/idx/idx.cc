#include "muster/data/formats/idx/idx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <optional>

#include "muster/data/formats/idx/idx_tensor.h"

namespace muster::data {
namespace {

// [N, H, W] are grey images: one channel. Anything else is taken as it is.
Shape sample_shape(const Shape& images) {
  Shape shape(images.begin() + 1, images.end());
  if (shape.size() == 2) shape.insert(shape.begin(), 1);
  return shape;
}

// The first number that is none or that F32 cannot hold; nothing where there is none such.
template <class Number>
std::optional<double> beyond_f32(const TensorView& view) noexcept {
  for (const Number number : view.as<const Number>())
    if (!(std::abs(number) <= std::numeric_limits<float>::max())) return number;
  return std::nullopt;
}

class IdxSource final : public Source {
 public:
  IdxSource(Path path, IdxTensor images, IdxTensor labels)
      : path_(std::move(path)),
        images_(std::move(images)),
        labels_(std::move(labels)),
        fields_{{"image", images_.dtype(), sample_shape(images_.shape())},
                {"label", DType::kI64, {}}} {}

  std::int64_t size() const noexcept override { return images_.rows(); }
  const std::vector<FieldSpec>& fields() const noexcept override { return fields_; }

  Status read(std::int64_t index, std::span<const TensorView> into) const override {
    images_.read_row(index, into[0].bytes);
    MUSTER_TRY(check_numbers(index, into[0]));
    into[1].as<std::int64_t>()[0] = labels_.read_integer(index);
    return ok();
  }

  std::uint64_t fingerprint() const noexcept override {
    Checksum sum;
    images_.add_to(sum);
    labels_.add_to(sum);
    return sum.value();
  }

 private:
  // As they are read: of all at once it would take as long as an epoch.
  Status check_numbers(std::int64_t row, const TensorView& image) const {
    std::optional<double> wrong;
    if (image.dtype == DType::kF32) wrong = beyond_f32<float>(image);
    if (image.dtype == DType::kF64) wrong = beyond_f32<double>(image);
    if (!wrong) return ok();
    return fail(ErrorCode::kInvalid,
                fmt::format("[data/idx] {}: row {} holds {}, which is no number that F32 can hold; "
                            "correct it or leave the row out, with its label",
                            path_.string(), row, *wrong));
  }

  const Path path_;  // of the images
  IdxTensor images_;
  IdxTensor labels_;
  std::vector<FieldSpec> fields_;
};

Status check_samples(const IdxFiles& idx, const IdxTensor& images) {
  if (element_count(images.shape()) > 0) return ok();
  return fail(
      ErrorCode::kInvalid,
      fmt::format("[data/idx] {}: there are no samples; its header says {} [{}]",
                  idx.images.string(), to_string(images.dtype()), fmt::join(images.shape(), ", ")));
}

Status check_classes(const IdxFiles& idx, const IdxTensor& labels) {
  if (idx.classes == 0) return ok();
  for (std::int64_t row = 0; row < labels.rows(); ++row) {
    const std::int64_t label = labels.read_integer(row);
    if (label >= 0 && label < idx.classes) continue;
    return fail(ErrorCode::kInvalid,
                fmt::format("[data/idx] {}: label {} at row {}, but model.classes is {}, so labels "
                            "run from 0 to {}",
                            idx.labels.string(), label, row, idx.classes, idx.classes - 1));
  }
  return ok();
}

Status check_labels(const IdxFiles& idx, const IdxTensor& images, const IdxTensor& labels) {
  const bool integers = labels.dtype() == DType::kU8 || labels.dtype() == DType::kI32;
  if (labels.shape().size() != 1 || !integers) {
    return fail(
        ErrorCode::kInvalid,
        fmt::format("[data/idx] {} holds {} of {} axes; labels are integers of one axis: are "
                    "images and labels swapped?",
                    idx.labels.string(), to_string(labels.dtype()), labels.shape().size()));
  }
  if (labels.rows() == images.rows()) return check_classes(idx, labels);
  return fail(
      ErrorCode::kInvalid,
      fmt::format("[data/idx] {} images in {}, but {} labels in {}: do they belong together?",
                  images.rows(), idx.images.string(), labels.rows(), idx.labels.string()));
}

}  // namespace

Result<SourcePtr> create_idx_source(Files& files, const IdxFiles& idx) {
  MUSTER_ASSIGN(IdxTensor images, IdxTensor::open(files, idx.images, idx.cache));
  MUSTER_ASSIGN(IdxTensor labels, IdxTensor::open(files, idx.labels, idx.cache));
  MUSTER_TRY(check_labels(idx, images, labels));
  MUSTER_TRY(check_samples(idx, images));
  return std::make_shared<IdxSource>(idx.images, std::move(images), std::move(labels));
}

}  // namespace muster::data
