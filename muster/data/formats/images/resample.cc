#include <algorithm>
#include <cmath>

#include "muster/data/formats/images/image.h"

namespace muster::data {
namespace {

// What one pixel along one axis is made of: pixels first, first + 1, … and their weights.
struct Tap {
  std::int64_t first = 0;
  std::vector<float> weights;  // of sum 1
};

// The `size` pixels in the middle of an axis of `length` that is scaled as an axis of `shorter` is
// scaled to `size`: a triangle over the neighbours that a pixel covers, so that reducing loses none
// of them (the antialiased bilinear filter of Pillow and torchvision).
std::vector<Tap> taps_for(std::int64_t length, std::int64_t shorter, std::int64_t size) {
  const std::int64_t scaled = size * length / shorter;  // Resize rounds down,
  const double margin =
      std::nearbyint(static_cast<double>(scaled - size) / 2);  // CenterCrop to even
  const double scale = static_cast<double>(length) / static_cast<double>(scaled);
  const double reach = std::max(scale, 1.0);
  std::vector<Tap> taps;
  for (std::int64_t at = 0; at < size; ++at) {
    const double centre = (static_cast<double>(at) + margin + 0.5) * scale;
    const auto first = std::max<std::int64_t>(0, std::llround(centre - reach));
    const auto last = std::min<std::int64_t>(length, std::llround(centre + reach));
    Tap tap{first, {}};
    double sum = 0;
    for (std::int64_t i = first; i < last; ++i) {
      const double far = std::abs(static_cast<double>(i) + 0.5 - centre) / reach;
      tap.weights.push_back(static_cast<float>(std::max(0.0, 1 - far)));
      sum += tap.weights.back();
    }
    for (float& weight : tap.weights) weight = static_cast<float>(weight / sum);
    taps.push_back(std::move(tap));
  }
  return taps;
}

// `from` begins at pixel `origin` of the axis, and `step` values lie between those of neighbours.
template <class Value>
float sum_of(const Tap& tap, const Value* from, std::int64_t origin, std::int64_t step) {
  from += (tap.first - origin) * step;
  float sum = 0;
  for (const float weight : tap.weights) {
    sum += weight * static_cast<float>(*from);
    from += step;
  }
  return sum;
}

void spread_planes(const Image& image, std::span<std::uint8_t> planes) {
  const auto step = static_cast<std::size_t>(image.channels);
  auto to = planes.begin();
  for (std::size_t channel = 0; channel < step; ++channel)
    for (std::size_t at = channel; at < image.pixels.size(); at += step) *to++ = image.pixels[at];
}

}  // namespace

void fit_image(const Image& image, std::int64_t size, std::span<std::uint8_t> planes) {
  if (image.width == size && image.height == size) return spread_planes(image, planes);
  const std::int64_t shorter = std::min(image.width, image.height);
  const std::vector<Tap> across = taps_for(image.width, shorter, size);
  const std::vector<Tap> down = taps_for(image.height, shorter, size);
  // The rows that count, which of a long picture are few.
  const std::int64_t top = down.front().first;
  const std::int64_t bottom = down.back().first + std::ssize(down.back().weights);
  std::vector<float> rows(static_cast<std::size_t>((bottom - top) * size));  // of one channel
  auto to = planes.begin();
  for (std::int64_t channel = 0; channel < image.channels; ++channel) {
    auto narrow = rows.begin();
    for (std::int64_t y = top; y < bottom; ++y) {
      const std::uint8_t* const row =
          image.pixels.data() + y * image.width * image.channels + channel;
      for (const Tap& tap : across) *narrow++ = sum_of(tap, row, 0, image.channels);
    }
    for (const Tap& tap : down)
      for (std::int64_t x = 0; x < size; ++x)
        *to++ = static_cast<std::uint8_t>(std::lround(sum_of(tap, rows.data() + x, top, size)));
  }
}

}  // namespace muster::data
