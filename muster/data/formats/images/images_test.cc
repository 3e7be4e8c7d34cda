#include "muster/data/formats/images/images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libdeflate.h>
#include <png.h>
#include <turbojpeg.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "muster/data/formats/images/image.h"
#include "muster/data/testing/packed.h"
#include "muster/testing/temp_folder.h"

namespace muster::data {
namespace {

using muster::testing::TempFolder;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Pixels = std::vector<std::uint8_t>;

// width × height pixels, one after the other, each of `channels` values.
std::string png_of(const Pixels& pixels, int width, int height, std::uint32_t format) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(width);
  png.height = static_cast<png_uint_32>(height);
  png.format = format;
  png_alloc_size_t size = 0;
  EXPECT_TRUE(png_image_write_get_memory_size(png, size, 0, pixels.data(), 0, nullptr) != 0);
  std::string file(size, '\0');
  EXPECT_TRUE(png_image_write_to_memory(&png, file.data(), &size, 0, pixels.data(), 0, nullptr) !=
              0);
  file.resize(size);
  return file;
}

std::string jpeg_of(const Pixels& pixels, int width, int height, int format, int subsampling) {
  const tjhandle encoder = tjInitCompress();
  unsigned char* file = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(tjCompress2(encoder, pixels.data(), width, 0, height, format, &file, &size, subsampling,
                        95, 0),
            0);
  std::string text(reinterpret_cast<char*>(file), size);
  tjFree(file);
  tjDestroy(encoder);
  return text;
}

Pixels filled(std::size_t count, const Pixels& pixel) {
  Pixels pixels;
  for (std::size_t i = 0; i < count; ++i) pixels.insert(pixels.end(), pixel.begin(), pixel.end());
  return pixels;
}

Result<Image> decoded(const std::string& file, std::int64_t channels,
                      std::int64_t at_least = 4096) {
  return decode_image(std::as_bytes(std::span(file)), channels, at_least);
}

Pixels fitted(const Image& image, std::int64_t size) {
  Pixels planes(static_cast<std::size_t>(image.channels * size * size));
  fit_image(image, size, planes);
  return planes;
}

TEST(Image, APngComesBackAsItWas) {
  const Pixels pixels = {0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 255};
  const auto image = decoded(png_of(pixels, 2, 2, PNG_FORMAT_RGB), 3);
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->width, 2);
  EXPECT_EQ(image->height, 2);
  EXPECT_EQ(image->pixels, pixels);
}

TEST(Image, GreyIsTheSameInEachChannelAndBack) {
  const Pixels pixels = {0, 1, 127, 128, 254, 255};
  const std::string file = png_of(pixels, 3, 2, PNG_FORMAT_GRAY);
  EXPECT_EQ(decoded(file, 1)->pixels, pixels);
  const auto colour = decoded(file, 3);
  for (std::size_t i = 0; i < pixels.size(); ++i)
    for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(colour->pixels[3 * i + c], pixels[i]);
}

TEST(Image, ColourBecomesGreyByTheWeightsOfTelevision) {
  const Pixels pixels = {255, 0, 0, 0, 255, 0, 0, 0, 255};
  EXPECT_THAT(decoded(png_of(pixels, 3, 1, PNG_FORMAT_RGB), 1)->pixels, ElementsAre(76, 150, 29));
}

// As torchvision reads it: the values that are in the file.
TEST(Image, NothingIsBlendedWhereItIsTransparent) {
  const Pixels pixels = {200, 100, 50, 255, 200, 100, 50, 0, 200, 100, 50, 128};
  EXPECT_THAT(decoded(png_of(pixels, 3, 1, PNG_FORMAT_RGBA), 3)->pixels,
              ElementsAre(200, 100, 50, 200, 100, 50, 200, 100, 50));
}

std::string chunk(const std::string& name, const std::string& content) {
  const std::string checked = name + content;
  return big_endian(static_cast<std::uint32_t>(content.size())) + checked +
         big_endian(libdeflate_crc32(0, checked.data(), checked.size()));
}

TEST(Image, NoGammaIsApplied) {
  constexpr std::size_t kBehindHeader = 8 + 25;
  std::string file = png_of({128, 10}, 2, 1, PNG_FORMAT_GRAY);
  file.insert(kBehindHeader, chunk("gAMA", big_endian(100'000)));
  EXPECT_THAT(decoded(file, 1)->pixels, ElementsAre(128, 10));
}

TEST(Image, AJpegIsNearWhatItWas) {
  for (const int subsampling : {TJSAMP_444, TJSAMP_420}) {
    const std::string file =
        jpeg_of(filled(48 * 32, {200, 100, 50}), 48, 32, TJPF_RGB, subsampling);
    const auto image = decoded(file, 3);
    ASSERT_TRUE(image) << image.error().message;
    EXPECT_EQ(image->width, 48);
    EXPECT_EQ(image->height, 32);
    for (std::size_t i = 0; i < image->pixels.size(); ++i)
      ASSERT_LE(std::abs(image->pixels[i] - (i % 3 == 0 ? 200 : i % 3 == 1 ? 100 : 50)), 3);
    EXPECT_NEAR(decoded(file, 1)->pixels[0], 124, 3);
  }
}

// Decoding fewer pixels saves time; too few would blur what is trained on.
TEST(Image, AJpegComesReducedButNeverTooSmall) {
  const std::string file = jpeg_of(filled(400 * 200, {90}), 400, 200, TJPF_GRAY, TJSAMP_GRAY);
  for (const std::int64_t at_least : {1, 24, 25, 26, 64, 100, 101, 199, 200, 201, 4096}) {
    const auto image = decoded(file, 1, at_least);
    ASSERT_TRUE(image);
    EXPECT_GE(image->height, std::min<std::int64_t>(at_least, 200));
    EXPECT_EQ(image->width, 2 * image->height);
    EXPECT_LE(image->height, at_least <= 100 ? 100 : 200);
  }
}

TEST(Image, WhatIsCutShortIsRefusedWhereverItIsCut) {
  Pixels noise(64 * 64);
  for (std::size_t i = 0; i < noise.size(); ++i)
    noise[i] = static_cast<std::uint8_t>(static_cast<std::uint32_t>(i) * 2654435761U >> 13);
  for (const std::string& file :
       {png_of(noise, 64, 64, PNG_FORMAT_GRAY), jpeg_of(noise, 64, 64, TJPF_GRAY, TJSAMP_GRAY)}) {
    ASSERT_TRUE(decoded(file, 1));
    for (const double share : {0.02, 0.2, 0.5, 0.9}) {
      const auto cut = static_cast<std::size_t>(share * static_cast<double>(file.size()));
      const auto image = decoded(file.substr(0, cut), 1);
      ASSERT_FALSE(image) << share;
      EXPECT_EQ(image.error().code, ErrorCode::kCorrupt);
      EXPECT_THAT(image.error().message, HasSubstr("is a broken "));
    }
  }
}

TEST(Image, OtherFormatsAreNamedAsWhatTheyAreNot) {
  EXPECT_THAT(decoded("GIF89a", 3).error().message, HasSubstr("neither PNG nor JPEG"));
  EXPECT_THAT(decoded("", 3).error().message, HasSubstr("empty"));
}

TEST(Image, PrintersColoursBecomeRedGreenAndBlue) {
  // Stored inverted: cyan 0, magenta 100 %, yellow 0 in half of black.
  const std::string file =
      jpeg_of(filled(16 * 16, {255, 0, 255, 128}), 16, 16, TJPF_CMYK, TJSAMP_444);
  const auto image = decoded(file, 3);
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->channels, 3);
  EXPECT_NEAR(image->pixels[0], 128, 4);
  EXPECT_NEAR(image->pixels[1], 0, 4);
  EXPECT_NEAR(image->pixels[2], 128, 4);
}

// Bytes that some cameras leave between segments.
TEST(Image, StrayBytesHarmNoJpegAndBrokenCodesDo) {
  Pixels noise(64 * 64);
  for (std::size_t i = 0; i < noise.size(); ++i)
    noise[i] = static_cast<std::uint8_t>(static_cast<std::uint32_t>(i) * 2654435761U >> 13);
  const std::string file = jpeg_of(noise, 64, 64, TJPF_GRAY, TJSAMP_GRAY);
  const auto whole = decoded(file, 1);
  std::string stray = file;
  stray.insert(stray.find("\xff\xc0"), "abcd");
  const auto found = decoded(stray, 1);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->pixels, whole->pixels);
  std::string broken = file;
  broken.replace(file.size() / 2, 2, "\xff\xc4");  // a segment begins amid the picture
  ASSERT_FALSE(decoded(broken, 1));
  EXPECT_EQ(decoded(broken, 1).error().code, ErrorCode::kCorrupt);
}

// A header of a few bytes asks for 100 GB.
TEST(Image, ABombIsRefused) {
  const std::string huge = big_endian(1 << 18);
  const std::string file = "\x89PNG\r\n\x1a\n" +
                           chunk("IHDR", huge + huge + std::string("\x08\0\0\0\0", 5)) +
                           chunk("IDAT", "") + chunk("IEND", "");
  ASSERT_FALSE(decoded(file, 3));
  EXPECT_EQ(decoded(file, 3).error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(decoded(file, 3).error().message, HasSubstr("262144 × 262144 pixels"));
}

TEST(Image, ItsSizeIsKnownFromItsBeginning) {
  const std::string png = png_of(filled(6, {1}), 3, 2, PNG_FORMAT_GRAY);
  const std::string jpeg = jpeg_of(filled(6, {1}), 3, 2, TJPF_GRAY, TJSAMP_GRAY);
  for (const std::string& file : {png, jpeg}) {
    const auto size = image_size(std::as_bytes(std::span(file)));
    ASSERT_TRUE(size);
    EXPECT_EQ(size->width, 3);
    EXPECT_EQ(size->height, 2);
  }
}

TEST(Image, TheMiddleIsKept) {
  // Three columns, red, green and blue, each as wide as the picture is high.
  Image image{12, 4, 3, {}};
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 12; ++x)
      for (int c = 0; c < 3; ++c) image.pixels.push_back(c == x / 4 ? 255 : 0);
  const Pixels planes = fitted(image, 4);
  EXPECT_THAT(std::span(planes).subspan(0, 16), Each(0));
  EXPECT_THAT(std::span(planes).subspan(16, 16), Each(255));
  EXPECT_THAT(std::span(planes).subspan(32, 16), Each(0));
}

TEST(Image, ThePlanesOfAFittingPictureAreItsPixels) {
  const Image image{2, 2, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};
  EXPECT_THAT(fitted(image, 2), ElementsAre(1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12));
}

// Without antialiasing every second column would be lost.
TEST(Image, ReducingTakesTheMean) {
  Image image{64, 64, 1, {}};
  for (int i = 0; i < 64 * 64; ++i) image.pixels.push_back(i % 2 == 0 ? 0 : 200);
  EXPECT_THAT(fitted(image, 8), Each(AllOf(::testing::Ge(95), ::testing::Le(105))));
}

// Any size from any size: what a picture of one colour becomes is of that colour.
TEST(Image, EverySizeComesFromEverySize) {
  for (const std::int64_t width : {1, 2, 3, 7, 31, 64, 100, 333})
    for (const std::int64_t height : {1, 2, 5, 48, 301})
      for (const std::int64_t size : {1, 2, 5, 28, 64, 129}) {
        const Image image{width, height, 1,
                          filled(static_cast<std::size_t>(width * height), {201})};
        ASSERT_THAT(fitted(image, size), Each(201)) << width << " " << height << " " << size;
      }
}

// What torch.nn.functional.interpolate(mode="bilinear", antialias=True) makes of the same, to one
// part in 255.
TEST(Image, SizesAreThoseOfPyTorch) {
  const std::pair<int, Pixels> expected[] = {
      {7, {88, 99, 91, 132, 100, 80, 166, 163, 101}},
      {3, {0,   4,   10, 24, 34,  29,  40,  56, 80, 96,  72,  93, 124,
           164, 190, 37, 68, 114, 169, 206, 14, 52, 108, 173, 216}},
      {10, {84, 109, 95, 91, 135, 96, 159, 145, 148, 130, 142, 143, 155, 159, 142, 143}}};
  for (const auto& [side, pixels] : expected) {
    Image image{side, side, 1, {}};
    for (int i = 0; i < side * side; ++i)
      image.pixels.push_back(static_cast<std::uint8_t>(i * i * 7 + 3 * i));
    const auto size = std::llround(std::sqrt(pixels.size()));
    const Pixels found = fitted(image, size);
    for (std::size_t i = 0; i < pixels.size(); ++i) EXPECT_NEAR(found[i], pixels[i], 1) << i;
  }
}

// 4 : 3, where Resize rounds the longer side and CenterCrop the margin.
TEST(Image, TheMiddleIsWhereTorchvisionTakesItFrom) {
  Image image{13, 10, 1, {}};
  for (int i = 0; i < 130; ++i)
    image.pixels.push_back(static_cast<std::uint8_t>(i * i * 7 + 3 * i));
  const Pixels expected = {95,  92,  76,  129, 106, 121, 144, 140,
                           141, 149, 153, 144, 144, 113, 90,  131};
  const Pixels found = fitted(image, 4);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1) << i;
}

// A long picture takes no more memory than its middle.
TEST(Image, OfALongPictureTheMiddleCounts) {
  const Image image{1, 1'000'000, 1, Pixels(1'000'000, 7)};
  EXPECT_THAT(fitted(image, 64), Each(7));
}

class ImageFolders : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) const {
    const Path path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
  }
  void paint(const std::string& name, std::uint8_t value) const {
    write(name, png_of(filled(4, {value}), 2, 2, PNG_FORMAT_GRAY));
  }
  ImageOptions options(const std::string& name = "all") const {
    return {.path = folder_.path() / name, .validation_fraction = 0.25, .size = 2, .channels = 1};
  }
  std::string refusal(const ImageOptions& options) const {
    const auto sets = create_image_sources(system_files(), options);
    return sets ? "it was taken" : sets.error().message;
  }

  // Brightness and label of a sample.
  static std::pair<int, std::int64_t> sample(const Source& source, std::int64_t index) {
    Pixels pixels(4);
    std::int64_t label = -1;
    const std::vector<TensorView> into{
        {DType::kU8, {1, 2, 2}, std::as_writable_bytes(std::span(pixels))},
        {DType::kI64, {}, std::as_writable_bytes(std::span(&label, 1))}};
    const Status read = source.read(index, into);
    EXPECT_TRUE(read) << read.error().message;
    return {pixels[0], label};
  }

  TempFolder folder_;
};

TEST_F(ImageFolders, FoldersAreClassesInTheOrderOfTheirNames) {
  paint("all/b/1.png", 1);
  paint("all/a/deep/er/2.PNG", 2);
  write("all/a/3.jpeg", jpeg_of(filled(4, {3}), 2, 2, TJPF_GRAY, TJSAMP_GRAY));
  paint("all/C/4.png", 4);
  write("all/a/Thumbs.db", "whatever");
  write("all/.git/x.png", "no picture");
  write("all/README", "whatever");
  const auto sets = create_image_sources(system_files(), options());
  ASSERT_TRUE(sets) << sets.error().message;
  EXPECT_THAT(sets->classes, ElementsAre("C", "a", "b"));
  EXPECT_EQ(sets->sources.training->size(), 3);
  EXPECT_EQ(sets->sources.validation->size(), 1);
  std::map<int, std::int64_t> labels;
  for (const SourcePtr& source : {sets->sources.training, sets->sources.validation})
    for (std::int64_t i = 0; i < source->size(); ++i) labels.insert(sample(*source, i));
  EXPECT_EQ(labels, (std::map<int, std::int64_t>{{1, 2}, {2, 1}, {3, 1}, {4, 0}}));
}

TEST_F(ImageFolders, AFolderOfItsOwnIsForValidation) {
  for (const char* name : {"all/a/1.png", "all/b/2.png", "all/c/3.png"}) paint(name, 1);
  paint("more/c/9.png", 9);
  ImageOptions both = options();
  both.validation_path = folder_.path() / "more";
  const auto sets = create_image_sources(system_files(), both);
  ASSERT_TRUE(sets) << sets.error().message;
  EXPECT_EQ(sets->sources.training->size(), 3);
  EXPECT_EQ(sample(*sets->sources.validation, 0), std::pair(9, std::int64_t{2}));

  std::filesystem::create_directories(folder_.path() / "more/lost+found");
  EXPECT_TRUE(create_image_sources(system_files(), both)) << "it holds no pictures";
  paint("more/d/1.png", 1);
  EXPECT_THAT(refusal(both),
              AllOf(HasSubstr("more/d is none of the classes"), HasSubstr("a, b, c")));
}

TEST_F(ImageFolders, WhatCannotBeMeantIsRefused) {
  std::filesystem::create_directories(folder_.path() / "all");
  EXPECT_THAT(refusal(options()), HasSubstr("holds no folders of .png"));
  std::filesystem::create_directories(folder_.path() / "all/a");
  EXPECT_THAT(refusal(options()), HasSubstr("all/a holds no .png"));
  paint("all/a/1.png", 1);
  EXPECT_THAT(refusal(options()), HasSubstr("leaves none for validation"));
  paint("all/a/2.png", 1);
  paint("all/3.png", 1);
  EXPECT_THAT(refusal(options()), AllOf(HasSubstr("all/3.png"), HasSubstr("in no class")));
  std::filesystem::remove(folder_.path() / "all/3.png");
  write("all/a/4.webp", "");
  EXPECT_THAT(refusal(options()), AllOf(HasSubstr("4.webp"), HasSubstr("convert it")));
  std::filesystem::remove(folder_.path() / "all/a/4.webp");
  for (const char* name : {"all/b/1.png", "all/c/1.png", "all/d/1.png"}) paint(name, 1);
  ImageOptions few = options();
  few.classes = 3;
  EXPECT_THAT(refusal(few), AllOf(HasSubstr("holds 4 folders"), HasSubstr("model.classes is 3")));
  EXPECT_THAT(refusal(options("none")), HasSubstr("No such file"));
}

// A class that is left out would give the others other labels.
TEST_F(ImageFolders, AClassThatIsOutOfReachIsTold) {
  for (const char* name : {"all/a/1.png", "all/b/1.png"}) paint(name, 1);
  std::filesystem::create_directory_symlink(folder_.path() / "unmounted",
                                            folder_.path() / "all/aa");
  EXPECT_THAT(refusal(options()), AllOf(HasSubstr("all/aa"), HasSubstr("No such file")));
}

TEST_F(ImageFolders, ALinkThatLeadsBackHasAnEnd) {
  paint("all/a/1.png", 1);
  std::filesystem::create_directory_symlink(folder_.path() / "all/a", folder_.path() / "all/a/b");
  EXPECT_THAT(refusal(options()), HasSubstr("folders deep"));
}

TEST_F(ImageFolders, ABrokenPictureIsNamedWhenItIsRead) {
  for (const char* name : {"all/a/1.png", "all/a/2.png", "all/a/3.png", "all/a/4.png"})
    write(name, "\x89PNG\r\n\x1a\nbut not for long");
  const auto sets = create_image_sources(system_files(), options());
  ASSERT_TRUE(sets) << sets.error().message;
  Pixels pixels(4);
  std::int64_t label = -1;
  const std::vector<TensorView> into{
      {DType::kU8, {1, 2, 2}, std::as_writable_bytes(std::span(pixels))},
      {DType::kI64, {}, std::as_writable_bytes(std::span(&label, 1))}};
  const Status read = sets->sources.validation->read(0, into);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(read.error().message, AllOf(HasSubstr("all/a/"), HasSubstr("is a broken PNG")));
}

}  // namespace
}  // namespace muster::data
