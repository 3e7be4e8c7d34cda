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

struct ImageSize {  // pixels
  std::int64_t width = 0;
  std::int64_t height = 0;
};

// What a file says of itself at its beginning. Errors as of decode_image(). Pure.
Result<ImageSize> image_size(std::span<const std::byte> file);

// The kind is told by the first bytes. The values are those in the file: nothing is blended where
// it is transparent, no gamma or profile and no orientation that a camera notes (EXIF) is applied;
// 16 bits become 8. Colour becomes grey by the weights of ITU-R BT.601, a JPEG in CMYK becomes RGB.
// A JPEG may come reduced by a whole number of eighths, no side shorter than `at_least`, which
// saves most of the work of decoding. kUnsupported for other formats and beyond 2^27 pixels;
// kCorrupt for what is broken or cut short. Pure.
Result<Image> decode_image(std::span<const std::byte> file, std::int64_t channels,
                           std::int64_t at_least);

// Scales the shorter side to `size` and cuts the middle out, pixel by pixel where torchvision's
// Resize and CenterCrop take it from, antialiased; writes `channels` planes of size × size. Pure.
void fit_image(const Image& image, std::int64_t size, std::span<std::uint8_t> planes);

}  // namespace muster::data
