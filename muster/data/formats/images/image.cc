#include "muster/data/formats/images/image.h"

#include <fmt/format.h>
#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace muster::data {
namespace {

using Bytes = std::span<const std::byte>;

// Larger pictures are taken for bombs: a file of kilobytes that fills a memory.
constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;

bool begins_with(Bytes file, std::string_view magic) {
  return file.size() >= magic.size() && std::memcmp(file.data(), magic.data(), magic.size()) == 0;
}

Status check_size(std::int64_t width, std::int64_t height) {
  if (width < 1 || height < 1)
    return fail(ErrorCode::kCorrupt, "is a broken picture: it has no pixels");
  if (width <= kMostPixels / height) return ok();
  return fail(ErrorCode::kUnsupported,
              fmt::format("is {} × {} pixels; the most are {}", width, height, kMostPixels));
}

std::size_t sample_count(const Image& image) {
  return static_cast<std::size_t>(image.width * image.height * image.channels);
}

Image grey_of(const Image& colour) {
  Image grey{colour.width, colour.height, 1, {}};
  grey.pixels.resize(sample_count(grey));
  const std::uint8_t* from = colour.pixels.data();
  for (std::uint8_t& to : grey.pixels) {
    to = static_cast<std::uint8_t>((299 * from[0] + 587 * from[1] + 114 * from[2] + 500) / 1000);
    from += 3;
  }
  return grey;
}

struct FreePng {
  void operator()(png_image* image) const noexcept { png_image_free(image); }
};

Result<Image> decode_png(Bytes file, std::int64_t channels) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, FreePng> owner(&png);
  const auto broken = [&png] {
    return fail(ErrorCode::kCorrupt, fmt::format("is a broken PNG: {}", png.message));
  };
  if (png_image_begin_read_from_memory(&png, file.data(), file.size()) == 0) return broken();
  MUSTER_TRY(check_size(png.width, png.height));
  png.format = PNG_FORMAT_RGB;
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  Image image{png.width, png.height, 3, {}};
  image.pixels.resize(sample_count(image));
  const png_color black{};
  if (png_image_finish_read(&png, &black, image.pixels.data(), 0, nullptr) == 0) return broken();
  return channels == 1 ? grey_of(image) : image;
}

struct CloseJpeg {
  void operator()(void* decoder) const noexcept { tjDestroy(decoder); }
};
using JpegDecoder = std::unique_ptr<void, CloseJpeg>;

// The smallest scale at which no side is below `at_least`.
tjscalingfactor reduction_of(std::int64_t shorter, std::int64_t at_least) {
  int count = 0;
  const tjscalingfactor* const all = tjGetScalingFactors(&count);
  tjscalingfactor best{1, 1};
  for (const tjscalingfactor& scale : std::span(all, static_cast<std::size_t>(count))) {
    const bool smaller = scale.num * best.denom < best.num * scale.denom;
    if (smaller && TJSCALED(shorter, scale) >= at_least) best = scale;
  }
  return best;
}

// A decoder goes on where it can and says so; what is cut short is not what it was, anything else
// (stray bytes between segments) harms no picture.
bool is_harmless(void* decoder) {
  const std::string_view told = tjGetErrorStr2(decoder);
  return tjGetErrorCode(decoder) == TJERR_WARNING && told.find("remature end") == told.npos;
}

Result<Image> decode_jpeg(Bytes file, std::int64_t channels, std::int64_t at_least) {
  const JpegDecoder decoder(tjInitDecompress());
  if (!decoder) return fail(ErrorCode::kUnavailable, "cannot be decoded: no memory");
  const auto broken = [&decoder] {
    return fail(ErrorCode::kCorrupt,
                fmt::format("is a broken JPEG: {}", tjGetErrorStr2(decoder.get())));
  };
  const auto* const bytes = reinterpret_cast<const unsigned char*>(file.data());
  int width = 0, height = 0, subsampling = 0, colours = 0;
  if (tjDecompressHeader3(decoder.get(), bytes, file.size(), &width, &height, &subsampling,
                          &colours) != 0)
    return broken();
  if (colours == TJCS_CMYK || colours == TJCS_YCCK)
    return fail(ErrorCode::kUnsupported, "is a JPEG in CMYK, for print; convert it to RGB");
  MUSTER_TRY(check_size(width, height));
  const tjscalingfactor scale = reduction_of(std::min(width, height), at_least);
  Image image{TJSCALED(width, scale), TJSCALED(height, scale), channels, {}};
  image.pixels.resize(sample_count(image));
  if (tjDecompress2(decoder.get(), bytes, file.size(), image.pixels.data(),
                    static_cast<int>(image.width), 0, static_cast<int>(image.height),
                    channels == 1 ? TJPF_GRAY : TJPF_RGB, TJFLAG_ACCURATEDCT) != 0 &&
      !is_harmless(decoder.get()))
    return broken();
  return image;
}

}  // namespace

Result<Image> decode_image(Bytes file, std::int64_t channels, std::int64_t at_least) {
  if (begins_with(file, "\x89PNG\r\n\x1a\n")) return decode_png(file, channels);
  if (begins_with(file, "\xff\xd8\xff")) return decode_jpeg(file, channels, at_least);
  return fail(ErrorCode::kUnsupported,
              file.empty() ? "is empty" : "is neither PNG nor JPEG, whatever its name says");
}

}  // namespace muster::data
