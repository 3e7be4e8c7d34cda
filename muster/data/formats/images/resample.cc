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

// `size` pixels in the middle of an axis of `length`, each `scale` of its pixels wide: a triangle
// over the neighbours that a pixel covers, so that reducing loses none of them (the antialiased
// bilinear filter of Pillow and torchvision).
std::vector<Tap> taps_for(std::int64_t length, std::int64_t size, double scale) {
  const double reach = std::max(scale, 1.0);
  const double begin = (static_cast<double>(length) - static_cast<double>(size) * scale) / 2;
  std::vector<Tap> taps;
  for (std::int64_t at = 0; at < size; ++at) {
    const double centre = begin + (static_cast<double>(at) + 0.5) * scale;
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

// `step` values lie between those of neighbours.
template <class Value>
float sum_of(const Tap& tap, const Value* from, std::int64_t step) {
  from += tap.first * step;
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
  const double scale =
      static_cast<double>(std::min(image.width, image.height)) / static_cast<double>(size);
  const std::vector<Tap> across = taps_for(image.width, size, scale);
  const std::vector<Tap> down = taps_for(image.height, size, scale);
  std::vector<float> rows(static_cast<std::size_t>(image.height * size));  // of one channel
  auto to = planes.begin();
  for (std::int64_t channel = 0; channel < image.channels; ++channel) {
    auto narrow = rows.begin();
    for (std::int64_t y = 0; y < image.height; ++y) {
      const std::uint8_t* const row =
          image.pixels.data() + y * image.width * image.channels + channel;
      for (const Tap& tap : across) *narrow++ = sum_of(tap, row, image.channels);
    }
    for (const Tap& tap : down)
      for (std::int64_t x = 0; x < size; ++x)
        *to++ = static_cast<std::uint8_t>(std::lround(sum_of(tap, rows.data() + x, size)));
  }
}

}  // namespace muster::data
