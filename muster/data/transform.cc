#include "muster/data/transform.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "muster/base/check.h"

namespace muster::data {
namespace {

struct ImageShape {
  std::int64_t channels;
  std::int64_t height;
  std::int64_t width;
};

ImageShape image_shape(const TensorView& view) noexcept {
  return {view.shape[0], view.shape[1], view.shape[2]};
}

Status require_image(std::string_view transform, const FieldSpec& field) {
  if (field.shape.size() == 3) return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("[data/{}] works on images [channels, height, width], not on {}",
                          transform, describe(field)));
}

// One for each place along the first axis.
std::int64_t channels_of(const Shape& shape) noexcept {
  return shape.empty() ? 1 : std::max<std::int64_t>(shape.front(), 1);
}

class Normalise final : public Transform {
 public:
  Normalise(std::vector<float> mean, std::vector<float> std)
      : mean_(std::move(mean)), std_(std::move(std)), tables_(std::max(mean_.size(), std_.size())) {
    for (std::size_t channel = 0; channel < tables_.size(); ++channel) fill_table(channel);
  }

  std::string_view name() const noexcept override { return "normalise"; }

  Result<FieldSpec> output(const FieldSpec& input) const override {
    MUSTER_TRY(require_type(input));
    MUSTER_TRY(require_values(input));
    MUSTER_TRY(require_range(input));
    return FieldSpec{input.name, DType::kF32, input.shape};
  }

  void apply(const RandomStream&, const TensorView& input,
             const TensorView& output) const noexcept override {
    switch (input.dtype) {
      case DType::kI32:
        return apply_to<std::int32_t>(input, output);
      case DType::kF32:
        return apply_to<float>(input, output);
      case DType::kF64:
        return apply_to<double>(input, output);
      default:
        return apply_to<std::uint8_t>(input, output);
    }
  }

 private:
  using Table = std::array<float, 256>;  // result for each byte: the same bits with any compiler

  template <class Number>
  void apply_to(const TensorView& input, const TensorView& output) const noexcept {
    const auto channels = static_cast<std::size_t>(channels_of(input.shape));
    const std::span<const Number> from = input.as<const Number>();
    const std::size_t plane = from.size() / channels;
    float* const to = output.as<float>().data();
    for (std::size_t channel = 0; channel < channels; ++channel)
      put(from.subspan(channel * plane, plane), to + channel * plane, channel);
  }

  void put(std::span<const std::uint8_t> from, float* to, std::size_t channel) const noexcept {
    const Table& table = of_channel(tables_, channel);
    std::ranges::transform(from, to, [&table](std::uint8_t value) { return table[value]; });
  }

  template <class Number>
  void put(std::span<const Number> from, float* to, std::size_t channel) const noexcept {
    const double mean = of_channel(mean_, channel);
    const double std = of_channel(std_, channel);
    std::ranges::transform(from, to,
                           [=](Number value) { return static_cast<float>((value - mean) / std); });
  }

  // One serves all channels.
  template <class Each>
  static const Each& of_channel(const std::vector<Each>& values, std::size_t channel) noexcept {
    return values[std::min(channel, values.size() - 1)];
  }

  void fill_table(std::size_t channel) {
    const float mean = of_channel(mean_, channel);
    const float std = of_channel(std_, channel);
    for (std::size_t value = 0; value < 256; ++value) {
      tables_[channel][value] = (static_cast<float>(value) / 255.0f - mean) / std;
    }
  }

  static Status require_type(const FieldSpec& input) {
    constexpr DType kTypes[] = {DType::kU8, DType::kI32, DType::kF32, DType::kF64};
    if (std::ranges::find(kTypes, input.dtype) != std::end(kTypes)) return ok();
    return fail(
        ErrorCode::kInvalid,
        fmt::format("[data/normalise] works on U8, I32, F32 and F64, not on {}", describe(input)));
  }

  Status require_values(const FieldSpec& input) const {
    for (const auto& [field, values] : {std::pair("data.mean", &mean_), {"data.std", &std_}}) {
      if (values->size() == 1 || std::ssize(*values) == channels_of(input.shape)) continue;
      return fail(ErrorCode::kInvalid,
                  fmt::format("[data/normalise] {}, but {} has {} values: give one, or one a "
                              "channel",
                              describe(input), field, values->size()));
    }
    if (std::ranges::any_of(std_, [](float std) { return !(std > 0) || !std::isfinite(std); })) {
      return fail(ErrorCode::kInvalid, "[data/normalise] a standard deviation must be above 0");
    }
    return ok();
  }

  // What bytes become is known before any is read.
  Status require_range(const FieldSpec& input) const {
    const auto fit = [](std::span<const float> values) {
      return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
    };
    if (fit(mean_) && (input.dtype != DType::kU8 || std::ranges::all_of(tables_, fit))) return ok();
    return fail(ErrorCode::kInvalid,
                fmt::format("[data/normalise] {}, with data.mean [{}] and data.std [{}] it becomes "
                            "more than F32 can hold; for bytes both are of values from 0 to 1",
                            describe(input), fmt::join(mean_, ", "), fmt::join(std_, ", ")));
  }

  std::vector<float> mean_;
  std::vector<float> std_;
  std::vector<Table> tables_;
};

class RandomCrop final : public Transform {
 public:
  explicit RandomCrop(std::int32_t padding) : padding_(padding) {}

  std::string_view name() const noexcept override { return "random_crop"; }

  Result<FieldSpec> output(const FieldSpec& input) const override {
    MUSTER_TRY(require_image(name(), input));
    if (padding_ >= 0 && padding_ <= input.shape[1] && padding_ <= input.shape[2]) return input;
    return fail(ErrorCode::kInvalid,
                fmt::format("[data/random_crop] {} cannot be padded by more than it is large, but "
                            "data.augment.crop_padding is {}",
                            describe(input), padding_));
  }

  void apply(const RandomStream& random, const TensorView& input,
             const TensorView& output) const noexcept override {
    const auto choices = static_cast<std::uint64_t>(2 * padding_ + 1);
    const std::int64_t down = static_cast<std::int64_t>(random.below(0, choices)) - padding_;
    const std::int64_t right = static_cast<std::int64_t>(random.below(1, choices)) - padding_;
    const ImageShape image = image_shape(input);
    const auto element = static_cast<std::int64_t>(size_of(input.dtype));
    const std::int64_t row = image.width * element;
    // Columns [first, last) of an output row exist in the input.
    const std::int64_t first = std::max<std::int64_t>(0, -right) * element;
    const std::int64_t last = (image.width - std::max<std::int64_t>(0, right)) * element;
    const std::byte* from = input.bytes.data();
    std::byte* to = output.bytes.data();
    for (std::int64_t channel = 0; channel < image.channels; ++channel) {
      for (std::int64_t y = 0; y < image.height; ++y, to += row) {
        const std::int64_t source_y = y + down;
        if (source_y < 0 || source_y >= image.height) {
          std::memset(to, 0, static_cast<std::size_t>(row));
          continue;
        }
        const std::byte* source = from + source_y * row + right * element;
        std::memset(to, 0, static_cast<std::size_t>(first));
        std::memcpy(to + first, source + first, static_cast<std::size_t>(last - first));
        std::memset(to + last, 0, static_cast<std::size_t>(row - last));
      }
      from += image.height * row;
    }
  }

 private:
  std::int64_t padding_;
};

template <class Unsigned>
void mirror_rows(const TensorView& input, const TensorView& output, std::int64_t width) noexcept {
  const std::span<const Unsigned> from = input.as<const Unsigned>();
  Unsigned* to = output.as<Unsigned>().data();
  for (auto row = from.begin(); row != from.end(); row += width, to += width) {
    std::reverse_copy(row, row + width, to);
  }
}

class RandomHorizontalFlip final : public Transform {
 public:
  std::string_view name() const noexcept override { return "random_horizontal_flip"; }

  Result<FieldSpec> output(const FieldSpec& input) const override {
    MUSTER_TRY(require_image(name(), input));
    return input;
  }

  void apply(const RandomStream& random, const TensorView& input,
             const TensorView& output) const noexcept override {
    if (random.below(0, 2) == 0) {
      std::memcpy(output.bytes.data(), input.bytes.data(), input.bytes.size());
      return;
    }
    const std::int64_t width = input.shape[2];
    switch (size_of(input.dtype)) {
      case 1:
        return mirror_rows<std::uint8_t>(input, output, width);
      case 2:
        return mirror_rows<std::uint16_t>(input, output, width);
      case 4:
        return mirror_rows<std::uint32_t>(input, output, width);
      default:
        return mirror_rows<std::uint64_t>(input, output, width);
    }
  }
};

}  // namespace

TransformPtr normalise(std::vector<float> mean, std::vector<float> std) {
  MUSTER_CHECK(!mean.empty() && !std.empty(), "normalise needs a mean and a standard deviation");
  return std::make_shared<Normalise>(std::move(mean), std::move(std));
}

TransformPtr random_crop(std::int32_t padding) { return std::make_shared<RandomCrop>(padding); }

TransformPtr random_horizontal_flip() { return std::make_shared<RandomHorizontalFlip>(); }

}  // namespace muster::data
