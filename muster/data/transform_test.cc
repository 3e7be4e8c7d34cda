#include "muster/data/transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include "muster/testing/fake_source.h"

namespace muster::data {
namespace {

using ::testing::HasSubstr;

const FieldSpec kImage{"image", DType::kU8, {1, 3, 4}};

std::vector<std::uint8_t> counting(std::size_t size) {
  std::vector<std::uint8_t> values(size);
  std::iota(values.begin(), values.end(), std::uint8_t{1});
  return values;
}

template <class T>
TensorView shaped(std::vector<T>& values, Shape shape) {
  TensorView view = view_of(std::span<T>(values));
  view.shape = std::move(shape);
  return view;
}

std::vector<std::uint8_t> apply_to_bytes(const Transform& transform, const RandomStream& random,
                                         std::vector<std::uint8_t> input, const Shape& shape) {
  std::vector<std::uint8_t> output(input.size(), 99);
  transform.apply(random, shaped(input, shape), shaped(output, shape));
  return output;
}

TEST(Normalise, GivesTheFloatsThatTorchvisionGives) {
  const TransformPtr transform = normalise({0.2860f}, {0.3530f});
  std::vector<std::uint8_t> input{0, 1, 128, 255};
  std::vector<float> output(4);
  transform->apply(RandomStream(0, ""), shaped(input, {1, 2, 2}), shaped(output, {1, 2, 2}));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(output[i], (static_cast<float>(input[i]) / 255.0f - 0.2860f) / 0.3530f);
  }
}

TEST(Normalise, UsesEachChannelsOwnValues) {
  const TransformPtr transform = normalise({0.0f, 0.5f}, {1.0f, 0.5f});
  std::vector<std::uint8_t> input{255, 255};
  std::vector<float> output(2);
  transform->apply(RandomStream(0, ""), shaped(input, {2, 1, 1}), shaped(output, {2, 1, 1}));
  EXPECT_EQ(output[0], 1.0f);
  EXPECT_EQ(output[1], 1.0f);
  const auto field = transform->output({"image", DType::kU8, {2, 1, 1}});
  ASSERT_TRUE(field);
  EXPECT_EQ(*field, (FieldSpec{"image", DType::kF32, {2, 1, 1}}));
}

template <class T>
std::vector<float> normalised(const Transform& transform, std::vector<T> input, const Shape& shape,
                              DType dtype) {
  const auto field = transform.output({"image", dtype, shape});
  EXPECT_TRUE(field) << field.error().message;
  EXPECT_EQ(*field, (FieldSpec{"image", DType::kF32, shape}));
  std::vector<float> output(input.size());
  transform.apply(RandomStream(0, ""), shaped(input, shape), shaped(output, shape));
  return output;
}

TEST(Normalise, TakesNumbersOtherThanBytesAsTheyAre) {
  const TransformPtr none = normalise({0.0f}, {1.0f});
  const TransformPtr some = normalise({2.0f, 1.0f}, {0.5f, 4.0f});
  const std::vector<float> floats{0.1f, -3.0f, 1e30f, 255.0f};
  EXPECT_EQ(normalised(*none, floats, {1, 2, 2}, DType::kF32), floats);
  EXPECT_EQ(normalised<double>(*none, {0.1, -3.0, 1e30, 255.0}, {4}, DType::kF64), floats);
  EXPECT_EQ(normalised<float>(*some, {2, 3, 9, 1}, {2, 1, 2}, DType::kF32),
            (std::vector<float>{0, 2, 2, 0}));
  EXPECT_EQ(normalised<std::int32_t>(*some, {1, -3}, {2}, DType::kI32),
            (std::vector<float>{-2, -1}));
}

TEST(Normalise, ScalesVectorsOfBytesLikeImages) {
  const TransformPtr one = normalise({0.0f}, {0.5f});
  const TransformPtr each = normalise({0.0f, 1.0f}, {1.0f, 0.5f});
  EXPECT_EQ(normalised<std::uint8_t>(*one, {0, 255, 51}, {3}, DType::kU8),
            (std::vector<float>{0, 2, 0.4f}));
  EXPECT_EQ(normalised<std::uint8_t>(*each, {255, 0}, {2}, DType::kU8),
            (std::vector<float>{1, -2}));
  EXPECT_EQ(normalised<std::uint8_t>(*one, {255}, {}, DType::kU8), (std::vector<float>{2}));
}

TEST(Normalise, RefusesWhatItCannotNormalise) {
  EXPECT_FALSE(normalise({0.f}, {1.f})->output({"label", DType::kI64, {}}));
  EXPECT_FALSE(normalise({0.f, 0.f}, {1.f, 1.f})->output({"label", DType::kU8, {}}));
  EXPECT_FALSE(normalise({0.f}, {0.f})->output(kImage));
  const auto two = normalise({0.f}, {1.f, 1.f})->output(kImage);
  ASSERT_FALSE(two);
  EXPECT_THAT(two.error().message, HasSubstr(", but data.std has 2 values: give one"));
}

// What a crop must equal: the image padded with zeros, cut at (down, right).
std::vector<std::uint8_t> cropped(const std::vector<std::uint8_t>& image, const Shape& shape,
                                  std::int64_t down, std::int64_t right) {
  std::vector<std::uint8_t> output(image.size(), 0);
  const std::int64_t height = shape[1];
  const std::int64_t width = shape[2];
  for (std::int64_t c = 0; c < shape[0]; ++c) {
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        const std::int64_t from_y = y + down;
        const std::int64_t from_x = x + right;
        if (from_y < 0 || from_y >= height || from_x < 0 || from_x >= width) continue;
        output[static_cast<std::size_t>((c * height + y) * width + x)] =
            image[static_cast<std::size_t>((c * height + from_y) * width + from_x)];
      }
    }
  }
  return output;
}

TEST(Normalise, RefusesWhatMakesNumbersThatF32CannotHold) {
  const FieldSpec numbers{"image", DType::kF32, {4}};
  const auto refused = normalise({0.5f}, {1e-40f})->output(kImage);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(refused.error().message, HasSubstr("more than F32 can hold"));
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(normalise({infinite}, {1})->output(numbers));
  EXPECT_FALSE(normalise({0, infinite}, {1, 1})->output({"image", DType::kU8, {2, 3, 4}}));
  EXPECT_TRUE(normalise({1e30f}, {1e30f})->output(numbers));
}

TEST(RandomCrop, GivesEveryPlacementAndNothingElse) {
  const Shape shape{2, 3, 4};
  const std::vector<std::uint8_t> image = counting(24);
  std::set<std::vector<std::uint8_t>> expected;
  for (std::int64_t down = -2; down <= 2; ++down) {
    for (std::int64_t right = -2; right <= 2; ++right) {
      expected.insert(cropped(image, shape, down, right));
    }
  }
  std::set<std::vector<std::uint8_t>> seen;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    seen.insert(apply_to_bytes(*random_crop(2), RandomStream(1, "test", i), image, shape));
  }
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(seen.size(), 25u);
}

TEST(RandomCrop, MovesWholeElements) {
  std::vector<std::int64_t> input{1, 2, 3, 4};
  for (std::uint64_t i = 0; i < 50; ++i) {
    std::vector<std::int64_t> output(4, 99);
    random_crop(1)->apply(RandomStream(1, "test", i), shaped(input, {1, 1, 4}),
                          shaped(output, {1, 1, 4}));
    for (const std::int64_t value : output) EXPECT_LE(value, 4);
  }
}

TEST(RandomCrop, RefusesPaddingBeyondTheImage) {
  EXPECT_TRUE(random_crop(3)->output(kImage));
  EXPECT_FALSE(random_crop(4)->output(kImage));
  EXPECT_FALSE(random_crop(-1)->output(kImage));
  EXPECT_FALSE(random_crop(1)->output({"label", DType::kI64, {}}));
}

TEST(RandomHorizontalFlip, MirrorsHalfOfTheImages) {
  const Shape shape{1, 2, 3};
  const std::vector<std::uint8_t> image = counting(6);
  const std::vector<std::uint8_t> mirrored{3, 2, 1, 6, 5, 4};
  int flips = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto output =
        apply_to_bytes(*random_horizontal_flip(), RandomStream(2, "test", i), image, shape);
    EXPECT_TRUE(output == image || output == mirrored);
    flips += output == mirrored;
  }
  EXPECT_NEAR(flips, 500, 80);  // 5 deviations
}

TEST(RandomHorizontalFlip, MirrorsElementsOfAnySize) {
  std::vector<float> input{1, 2, 3};
  std::vector<float> output(3);
  RandomStream random(0, "test");
  for (std::uint64_t i = 0; random.below(0, 2) == 0; ++i) random = RandomStream(0, "test", i);
  random_horizontal_flip()->apply(random, shaped(input, {1, 1, 3}), shaped(output, {1, 1, 3}));
  EXPECT_EQ(output, (std::vector<float>{3, 2, 1}));
}

std::vector<FieldTransform> augmentation() {
  return {{"image", random_crop(1)},
          {"image", random_horizontal_flip()},
          {"image", normalise({0.5f}, {0.5f})}};
}

std::vector<float> read_image(const Pipeline& pipeline, std::int64_t epoch, std::int64_t index) {
  Pipeline::Scratch scratch(pipeline);
  std::vector<float> image(static_cast<std::size_t>(element_count(pipeline.fields()[0].shape)));
  std::vector<std::int64_t> label(1);
  const std::vector<TensorView> views{shaped(image, pipeline.fields()[0].shape), shaped(label, {})};
  EXPECT_TRUE(pipeline.read(epoch, index, views, scratch));
  EXPECT_EQ(label[0], index);
  return image;
}

TEST(Pipeline, DerivesTheFieldsThatComeOut) {
  const auto pipeline = Pipeline::create(fake_images(5, {1, 4, 4}), augmentation());
  ASSERT_TRUE(pipeline);
  EXPECT_EQ(pipeline->fields(), (std::vector<FieldSpec>{{"image", DType::kF32, {1, 4, 4}},
                                                        {"label", DType::kI64, {}}}));
}

TEST(Pipeline, KeysRandomNumbersBySeedEpochAndSample) {
  const auto source = fake_images(50, {1, 8, 8});
  const auto pipeline = Pipeline::create(source, augmentation(), 1);
  const auto other_seed = Pipeline::create(source, augmentation(), 2);
  ASSERT_TRUE(pipeline && other_seed);
  EXPECT_EQ(read_image(*pipeline, 3, 7), read_image(*pipeline, 3, 7));
  int epochs_differ = 0;
  int seeds_differ = 0;
  for (std::int64_t i = 0; i < 50; ++i) {
    epochs_differ += read_image(*pipeline, 0, i) != read_image(*pipeline, 1, i);
    seeds_differ += read_image(*pipeline, 0, i) != read_image(*other_seed, 0, i);
  }
  EXPECT_GT(epochs_differ, 35);  // 18 outcomes each
  EXPECT_GT(seeds_differ, 35);
}

TEST(Pipeline, TransformsOfOneKindDrawIndependently) {
  // Two flips in a row undo each other when both fall the same way: half of the time.
  const auto source = fake_images(200, {1, 1, 8});
  const auto twice = Pipeline::create(source, {{"image", random_horizontal_flip()},
                                               {"image", random_horizontal_flip()},
                                               {"image", normalise({0.f}, {1.f})}});
  const auto plain = Pipeline::create(source, {{"image", normalise({0.f}, {1.f})}});
  ASSERT_TRUE(twice && plain);
  int same = 0;
  for (std::int64_t i = 0; i < 200; ++i) {
    same += read_image(*twice, 0, i) == read_image(*plain, 0, i);
  }
  EXPECT_NEAR(same, 100, 36);
}

TEST(Pipeline, NamesTheTransformThatDoesNotFit) {
  const auto unknown = Pipeline::create(fake_images(5, {1, 4, 4}), {{"picture", random_crop(1)}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(unknown.error().message, HasSubstr("[data/random_crop] the source has no field"));
  const auto label = Pipeline::create(fake_images(5, {1, 4, 4}), {{"label", normalise({0}, {1})}});
  ASSERT_FALSE(label);
  EXPECT_THAT(label.error().message,
              HasSubstr("[data/normalise] works on U8, I32, F32 and F64, not on label I64 []"));
}

}  // namespace
}  // namespace muster::data
