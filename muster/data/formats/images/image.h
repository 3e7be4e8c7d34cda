#pragma once
// One picture in memory: decoded from PNG (libpng) or JPEG (libjpeg-turbo), brought to a size.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/base/result.h"

namespace muster::data {

struct Image {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t channels = 0;         // 1: grey; 3: red, green, blue
  std::vector<std::uint8_t> pixels;  // rows from the top, channels of a pixel side by side
};

// The kind is told by the first bytes. Colour becomes grey by the weights of ITU-R BT.601, what is
// transparent is drawn on black, 16 bits become 8. The orientation that a camera notes (EXIF) is
// not applied. A JPEG may come reduced by a whole number of eighths, no side shorter than
// `at_least`, which saves most of the work of decoding. kUnsupported for other formats and for
// CMYK; kCorrupt for what is broken or cut short. Pure.
Result<Image> decode_image(std::span<const std::byte> file, std::int64_t channels,
                           std::int64_t at_least);

// Scales the shorter side to `size` and keeps the middle, as torchvision's Resize and CenterCrop do
// with antialiasing; writes `channels` planes of size × size. Pure.
void fit_image(const Image& image, std::int64_t size, std::span<std::uint8_t> planes);

}  // namespace muster::data
