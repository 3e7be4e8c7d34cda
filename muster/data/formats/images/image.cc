#include "muster/data/formats/images/image.h"

#include <fmt/format.h>
#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

namespace muster::data {
namespace {

using Bytes = std::span<const std::byte>;

// Larger pictures are taken for bombs: a file of kilobytes that fills a memory.
constexpr std::int64_t kMostPixels = std::int64_t{1} << 27;

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

// The chunks that say how to show a picture (https://www.w3.org/TR/png/#11Ancillary-chunks), which
// nobody who trains on it applies: taken out, libpng hands over the values that are in the file.
std::string without_colour_chunks(Bytes file) {
  constexpr std::size_t kSignature = 8, kAround = 12;  // length, name and checksum of a chunk
  const std::string_view all(reinterpret_cast<const char*>(file.data()), file.size());
  std::string kept(all.substr(0, kSignature));
  for (std::string_view rest = all.substr(kSignature); !rest.empty();) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < 4 && i < rest.size(); ++i)
      size = size << 8 | static_cast<unsigned char>(rest[i]);
    const std::string_view chunk = rest.substr(0, size + kAround);
    const std::string_view name = chunk.substr(std::min<std::size_t>(4, chunk.size()), 4);
    if (name != "gAMA" && name != "cHRM" && name != "sRGB" && name != "iCCP") kept += chunk;
    rest.remove_prefix(chunk.size());
  }
  return kept;
}

class Png {
 public:
  explicit Png(Bytes file) : file_(without_colour_chunks(file)) {
    png_.version = PNG_IMAGE_VERSION;
  }
  ~Png() { png_image_free(&png_); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;

  Result<ImageSize> open() {
    if (png_image_begin_read_from_memory(&png_, file_.data(), file_.size()) == 0) return broken();
    MUSTER_TRY(check_size(png_.width, png_.height));
    return ImageSize{png_.width, png_.height};
  }

  // As if nothing were transparent.
  Result<Image> read() {
    png_.format = PNG_FORMAT_RGBA;
    png_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(png_));
    if (png_image_finish_read(&png_, nullptr, pixels.data(), 0, nullptr) == 0) return broken();
    Image image{png_.width, png_.height, 3, {}};
    image.pixels.resize(sample_count(image));
    for (std::size_t at = 0, from = 0; at < image.pixels.size(); at += 3, from += 4)
      std::copy_n(pixels.data() + from, 3, image.pixels.data() + at);
    return image;
  }

 private:
  Error broken() const {
    return fail(ErrorCode::kCorrupt, fmt::format("is a broken PNG: {}", png_.message));
  }

  std::string file_;
  png_image png_{};
};

Result<Image> decode_png(Bytes file, std::int64_t channels) {
  Png png(file);
  MUSTER_TRY(png.open());
  MUSTER_ASSIGN(Image image, png.read());
  return channels == 1 ? grey_of(image) : image;
}

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

// Printers' colours as they are usually stored, inverted (by Adobe's programs): three colours that
// black darkens.
Image rgb_of(const Image& cmyk) {
  Image rgb{cmyk.width, cmyk.height, 3, {}};
  rgb.pixels.resize(sample_count(rgb));
  const std::uint8_t* from = cmyk.pixels.data();
  for (std::size_t at = 0; at < rgb.pixels.size(); at += 3, from += 4)
    for (std::size_t c = 0; c < 3; ++c)
      rgb.pixels[at + c] = static_cast<std::uint8_t>((from[c] * from[3] + 127) / 255);
  return rgb;
}

class Jpeg {
 public:
  explicit Jpeg(Bytes file) : file_(file), decoder_(tjInitDecompress()) {}

  Result<ImageSize> open() {
    if (!decoder_) return fail(ErrorCode::kUnavailable, "cannot be decoded: no memory");
    int width = 0, height = 0, subsampling = 0;
    const int read = tjDecompressHeader3(decoder_.get(), bytes(), file_.size(), &width, &height,
                                         &subsampling, &colours_);
    if (read != 0 && !is_harmless()) return broken();
    MUSTER_TRY(check_size(width, height));
    size_ = {width, height};
    return size_;
  }

  Result<Image> read(std::int64_t channels, std::int64_t at_least) {
    if (colours_ != TJCS_CMYK && colours_ != TJCS_YCCK)
      return read_as(channels == 1 ? TJPF_GRAY : TJPF_RGB, at_least);
    MUSTER_ASSIGN(const Image cmyk, read_as(TJPF_CMYK, at_least));
    Image rgb = rgb_of(cmyk);
    return channels == 1 ? grey_of(rgb) : rgb;
  }

 private:
  const unsigned char* bytes() const noexcept {
    return reinterpret_cast<const unsigned char*>(file_.data());
  }

  Result<Image> read_as(TJPF format, std::int64_t at_least) {
    const tjscalingfactor scale = reduction_of(std::min(size_.width, size_.height), at_least);
    Image image{
        TJSCALED(size_.width, scale), TJSCALED(size_.height, scale), tjPixelSize[format], {}};
    image.pixels.resize(sample_count(image));
    const int read = tjDecompress2(decoder_.get(), bytes(), file_.size(), image.pixels.data(),
                                   static_cast<int>(image.width), 0, static_cast<int>(image.height),
                                   format, TJFLAG_ACCURATEDCT);
    if (read != 0 && !is_harmless()) return broken();
    return image;
  }

  // A decoder goes on where it can and says so. Stray bytes between segments harm no picture; all
  // else that it tells of does.
  bool is_harmless() const {
    const std::string_view told = tjGetErrorStr2(decoder_.get());
    return tjGetErrorCode(decoder_.get()) == TJERR_WARNING &&
           told.find("extraneous bytes before marker") != told.npos;
  }

  Error broken() const {
    return fail(ErrorCode::kCorrupt,
                fmt::format("is a broken JPEG: {}", tjGetErrorStr2(decoder_.get())));
  }

  struct Close {
    void operator()(void* decoder) const noexcept { tjDestroy(decoder); }
  };
  Bytes file_;
  std::unique_ptr<void, Close> decoder_;
  int colours_ = 0;
  ImageSize size_;
};

Result<Image> decode_jpeg(Bytes file, std::int64_t channels, std::int64_t at_least) {
  Jpeg jpeg(file);
  MUSTER_TRY(jpeg.open());
  return jpeg.read(channels, at_least);
}

bool is_png(Bytes file) { return begins_with(file, "\x89PNG\r\n\x1a\n"); }
bool is_jpeg(Bytes file) { return begins_with(file, "\xff\xd8\xff"); }

Error unknown(Bytes file) {
  return fail(ErrorCode::kUnsupported,
              file.empty() ? "is empty" : "is neither PNG nor JPEG, whatever its name says");
}

}  // namespace

Result<ImageSize> image_size(Bytes file) {
  if (is_png(file)) return Png(file).open();
  if (is_jpeg(file)) return Jpeg(file).open();
  return unknown(file);
}

Result<Image> decode_image(Bytes file, std::int64_t channels, std::int64_t at_least) {
  if (is_png(file)) return decode_png(file, channels);
  if (is_jpeg(file)) return decode_jpeg(file, channels, at_least);
  return unknown(file);
}

}  // namespace muster::data
