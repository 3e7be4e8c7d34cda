#include "muster/data/formats/idx/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>

#include "muster/data/testing/packed.h"
#include "muster/testing/temp_folder.h"

namespace muster::data {
namespace {

using muster::testing::TempFolder;
using ::testing::HasSubstr;

std::string header(int type, const std::vector<std::uint32_t>& extents) {
  std::string text{'\0', '\0', static_cast<char>(type), static_cast<char>(extents.size())};
  for (const std::uint32_t extent : extents) text += big_endian(extent);
  return text;
}

std::string counting(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(i);
  return text;
}

// Three 2 × 2 images of bytes 0 … 11, with labels 7, 8, 9.
const std::string kImages = header(0x08, {3, 2, 2}) + counting(12);
const std::string kLabels = header(0x08, {3}) + "\7\10\11";

class IdxTest : public ::testing::Test {
 protected:
  Result<SourcePtr> open(const std::string& images, const std::string& labels = kLabels) {
    return create_idx_source(system_files(), {write("images", images), write("labels", labels)});
  }

  void expect_refused(const std::string& images, const std::string& labels, ErrorCode code,
                      const std::string& why) {
    const auto source = open(images, labels);
    ASSERT_FALSE(source) << why;
    EXPECT_EQ(source.error().code, code) << source.error().message;
    EXPECT_THAT(source.error().message, HasSubstr(why));
    EXPECT_THAT(source.error().message, HasSubstr(folder_.path().string()));
  }

  // The image and label of one sample.
  template <class T>
  static std::pair<std::vector<T>, std::int64_t> read(const Source& source, std::int64_t index) {
    std::vector<T> image(static_cast<std::size_t>(element_count(source.fields()[0].shape)));
    std::vector<std::int64_t> label(1);
    const std::vector<TensorView> into{view_of(std::span<T>(image)),
                                       view_of(std::span<std::int64_t>(label))};
    EXPECT_TRUE(source.read(index, into));
    return {image, label[0]};
  }

  template <class T>
  static void expect_no_sample(const Source& source, std::int64_t index, const std::string& why) {
    std::vector<T> image(static_cast<std::size_t>(element_count(source.fields()[0].shape)));
    std::vector<std::int64_t> label(1);
    const std::vector<TensorView> into{view_of(std::span<T>(image)),
                                       view_of(std::span<std::int64_t>(label))};
    const Status status = source.read(index, into);
    ASSERT_FALSE(status) << why;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(status.error().message, HasSubstr(why));
  }

  Path write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }

  TempFolder folder_;
};

TEST_F(IdxTest, ReadsImagesAndLabelsPlainAndPacked) {
  for (const bool packed : {false, true}) {
    const auto source = packed ? open(gzip(kImages), gzip(kLabels)) : open(kImages);
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ((*source)->size(), 3);
    EXPECT_EQ((*source)->fields(), (std::vector<FieldSpec>{{"image", DType::kU8, {1, 2, 2}},
                                                           {"label", DType::kI64, {}}}));
    const auto [image, label] = read<std::uint8_t>(**source, 2);
    EXPECT_EQ(image, (std::vector<std::uint8_t>{8, 9, 10, 11}));
    EXPECT_EQ(label, 9);
  }
}

TEST_F(IdxTest, TurnsBigEndianElementsRound) {
  std::string numbers = header(0x0C, {2, 3});
  for (const std::uint32_t value : {1u, 2u, 0xFFFFFFFFu, 4u, 5u, 0x01020304u}) {
    numbers += big_endian(value);
  }
  const auto source = open(numbers, header(0x0C, {2}) + big_endian(5) + big_endian(0xFFFFFFFE));
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->fields()[0], (FieldSpec{"image", DType::kI32, {3}}));
  EXPECT_EQ(read<std::int32_t>(**source, 0).first, (std::vector<std::int32_t>{1, 2, -1}));
  EXPECT_EQ(read<std::int32_t>(**source, 1).first, (std::vector<std::int32_t>{4, 5, 0x01020304}));
  EXPECT_EQ(read<std::int32_t>(**source, 1).second, -2);
}

TEST_F(IdxTest, NamesTheRowOfANumberThatF32CannotHold) {
  constexpr std::uint32_t kOne = 0x3F800000, kInfinity = 0x7F800000, kNaN = 0x7FC00000;
  for (const std::uint32_t odd : {kInfinity, kNaN}) {
    const auto source = open(header(0x0D, {3, 2}) + big_endian(kOne) + big_endian(kOne) +
                             big_endian(kOne) + big_endian(odd) + big_endian(kOne) + big_endian(0));
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ(read<float>(**source, 0).first, (std::vector<float>{1, 1}));
    EXPECT_EQ(read<float>(**source, 2).first, (std::vector<float>{1, 0}));
    expect_no_sample<float>(**source, 1, odd == kNaN ? "images: row 1 holds nan" : "holds inf");
  }
  const std::uint32_t huge = 0x48078287;  // 1e39, the first half of it
  const auto wide =
      open(header(0x0E, {1, 1}) + big_endian(huge) + big_endian(0), header(0x08, {1}) + "\1");
  ASSERT_TRUE(wide) << wide.error().message;
  expect_no_sample<double>(**wide, 0, "row 0 holds 9.9");
}

TEST_F(IdxTest, KeepsTheShapeOfAnythingButGreyImages) {
  const auto colour = open(header(0x08, {3, 2, 1, 1}) + counting(6));
  const auto scalar = open(header(0x08, {3}) + counting(3));
  ASSERT_TRUE(colour && scalar);
  EXPECT_EQ((*colour)->fields()[0].shape, (Shape{2, 1, 1}));
  EXPECT_EQ((*scalar)->fields()[0].shape, Shape{});
}

TEST_F(IdxTest, RefusesASetOfNothing) {
  expect_refused(header(0x08, {0, 28, 28}), header(0x08, {0}), ErrorCode::kInvalid,
                 "images: there are no samples; its header says U8 [0, 28, 28]");
  expect_refused(header(0x0D, {3, 0}), kLabels, ErrorCode::kInvalid, "no samples");
}

TEST_F(IdxTest, RefusesBrokenHeaders) {
  expect_refused("", kLabels, ErrorCode::kCorrupt, "too few for an IDX header");
  expect_refused("GIF89a", kLabels, ErrorCode::kCorrupt, "starts with 0x47494638");
  expect_refused(header(0x08, {3, 2, 2}).substr(0, 13), kLabels, ErrorCode::kCorrupt,
                 "ends within its header of 16 bytes");
  expect_refused(header(0x08, {}), kLabels, ErrorCode::kCorrupt, "rank of 0");
  expect_refused(header(0x0B, {3}) + counting(6), kLabels, ErrorCode::kUnsupported,
                 "element type 0x0b");
}

// Read as a rank, a damaged byte would make extents of the first images.
TEST_F(IdxTest, NamesADamagedRankAndNotItsExtents) {
  std::string damaged = header(0x08, {3, 2, 2}) + counting(2000);
  damaged[3] = '\xfc';
  const auto source = open(damaged);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(source.error().message, HasSubstr("a rank of 252 (0xfc) at byte 3"));
  EXPECT_LT(source.error().message.size(), 300u);
  expect_refused(header(0x08, std::vector<std::uint32_t>(9, 1)) + "x", kLabels, ErrorCode::kCorrupt,
                 "a rank of 9 (0x09) at byte 3");
  const auto most = open(header(0x08, {3, 1, 1, 1, 1, 1, 1, 1}) + counting(3));
  EXPECT_TRUE(most) << most.error().message;
}

TEST_F(IdxTest, RefusesWrongLengths) {
  expect_refused(kImages.substr(0, kImages.size() - 1), kLabels, ErrorCode::kCorrupt,
                 "12 bytes, but 11 are there: it is truncated");
  expect_refused(kImages + "x", kLabels, ErrorCode::kCorrupt, "more bytes follow");
  expect_refused(header(0x0E, {~0u, ~0u, ~0u}), kLabels, ErrorCode::kCorrupt, "too many bytes");
}

TEST_F(IdxTest, AFolderIsMissingDataAndNoMistakeOfTheJob) {
  std::filesystem::create_directory(folder_ / "labels");
  const auto source =
      create_idx_source(system_files(), {write("images", kImages), folder_ / "labels"});
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(source.error().message, HasSubstr("labels: Is a directory"));
}

TEST_F(IdxTest, RefusesFilesThatDoNotBelongTogether) {
  expect_refused(kImages, header(0x08, {2}) + "\1\2", ErrorCode::kInvalid, "3 images in");
  expect_refused(kLabels, kImages, ErrorCode::kInvalid, "swapped");
}

TEST_F(IdxTest, RefusesALabelThatIsNoClass) {
  IdxFiles idx{write("images", kImages), write("labels", kLabels), 10};
  EXPECT_TRUE(create_idx_source(system_files(), idx));
  idx.classes = 9;
  const auto source = create_idx_source(system_files(), idx);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(source.error().message, HasSubstr("label 9 at row 2, but model.classes is 9"));
}

TEST_F(IdxTest, NoFlippedBitOfAPackedFileChangesAnImage) {
  const std::string packed = gzip(kImages);
  int refused = 0;
  for (std::size_t bit = 0; bit < packed.size() * 8; ++bit) {
    std::string broken = packed;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << bit % 8));
    const auto source = open(broken);
    refused += !source;
    // Bits without meaning exist: the header's time, padding between blocks.
    if (source) {
      EXPECT_EQ(read<std::uint8_t>(**source, 1).first, (std::vector<std::uint8_t>{4, 5, 6, 7}));
    }
  }
  EXPECT_GT(refused, static_cast<int>(packed.size()) * 5);
}

TEST_F(IdxTest, RefusesPackedFilesCutShortOrLong) {
  const std::string packed = gzip(kImages);
  for (std::size_t size = 2; size < packed.size(); ++size)
    EXPECT_FALSE(open(packed.substr(0, size)));
  expect_refused(packed + "more", kLabels, ErrorCode::kCorrupt, "[data/gzip]");
  expect_refused(packed + packed, kLabels, ErrorCode::kCorrupt, "more bytes follow");
  std::string lie = packed;
  lie.replace(lie.size() - 4, 4, "\xff\xff\xff\xff");
  expect_refused(lie, kLabels, ErrorCode::kCorrupt, "checksum or length is wrong");
}

// A set large enough to be worth a copy.
class IdxCacheTest : public IdxTest {
 protected:
  static constexpr std::uint32_t kRows = 600000;

  IdxCacheTest()
      : images_(header(0x08, {kRows, 2}) + counting(2 * kRows)),
        idx_{write("images.gz", gzip(images_)),
             write("labels", header(0x08, {kRows}) + std::string(kRows, '\1')), 0,
             folder_ / "cache"} {}

  void expect_whole() {
    const auto source = create_idx_source(system_files(), idx_);
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ(read<std::uint8_t>(**source, 1000).first, (std::vector<std::uint8_t>{208, 209}));
    EXPECT_EQ(read<std::uint8_t>(**source, kRows - 1).first, (std::vector<std::uint8_t>{126, 127}));
  }

  Path copy() {
    const auto names = system_files().list(idx_.cache);
    if (!names || names->size() != 1) return {};
    return idx_.cache / names->front();
  }

  const std::string images_;
  IdxFiles idx_;
};

TEST_F(IdxCacheTest, InflatesOnceAndMapsTheCopyFromThenOn) {
  expect_whole();
  ASSERT_FALSE(copy().empty());
  EXPECT_TRUE(system_files().read(copy())->starts_with(images_));
  // From now on only the trailer of the gzip file is looked at.
  std::string hollow = *system_files().read(idx_.images);
  std::fill(hollow.begin() + 20, hollow.end() - 8, 'x');
  write("images.gz", hollow);
  expect_whole();
}

TEST_F(IdxCacheTest, ADamagedCopyIsNotBelieved) {
  expect_whole();
  const Path at = copy();
  const std::string whole = *system_files().read(at);
  for (const std::string& broken : {std::string(), whole.substr(1), whole + "x", images_,
                                    whole.substr(0, 99) + '!' + whole.substr(100)}) {
    write("cache/" + at.filename().string(), broken);
    expect_whole();
    EXPECT_EQ(system_files().read(copy()).value(), whole);
  }
}

TEST_F(IdxCacheTest, AnotherFileOfTheSameNameHasItsOwnCopy) {
  expect_whole();
  std::string other = images_;
  other.back() = 'x';
  write("images.gz", gzip(other));
  const auto source = create_idx_source(system_files(), idx_);
  ASSERT_TRUE(source);
  EXPECT_EQ(read<std::uint8_t>(**source, kRows - 1).first, (std::vector<std::uint8_t>{126, 'x'}));
  EXPECT_EQ(system_files().list(idx_.cache).value().size(), 2U);
}

TEST_F(IdxCacheTest, GoesOnWhereNoCopyCanBeWritten) {
  write("cache", "a file, not a folder");
  expect_whole();
}

TEST_F(IdxTest, NamesAMissingFile) {
  const auto source =
      create_idx_source(system_files(), {folder_.path() / "none", folder_.path() / "neither"});
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace muster::data
