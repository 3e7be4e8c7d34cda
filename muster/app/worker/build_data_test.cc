#include "muster/app/worker/build_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/testing/memory_files.h"

namespace muster::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Pair;

const std::string kHalf{'\x3f', '\0', '\0', '\0'};  // 0.5 as an F32 of IDX

class BuildDataTest : public ::testing::Test {
 protected:
  BuildDataTest() {
    job_.data.path = "/data";
    job_.model.type = job::ModelType::kMlp;
    EXPECT_TRUE(disk_.create_folders("/data"));
  }

  void write_idx(const std::string& name, char type, const std::string& element,
                 const std::vector<char>& extents) {
    std::string text{'\0', '\0', type, static_cast<char>(extents.size())};
    std::size_t elements = 1;
    for (const char extent : extents) {
      text += {'\0', '\0', '\0', extent};
      elements *= static_cast<std::size_t>(extent);
    }
    for (std::size_t i = 0; i < elements; ++i) text += element;
    ASSERT_TRUE(write_atomically(disk_, Path("/data") / name, text));
  }

  // Two samples of that shape in each set, of one and the same number.
  void write_sets(char type, const std::string& element, std::vector<char> shape) {
    shape.insert(shape.begin(), 2);
    for (const std::string& name : {job_.data.train_images, job_.data.validation_images})
      write_idx(name, type, element, shape);
    for (const std::string& name : {job_.data.train_labels, job_.data.validation_labels})
      write_idx(name, '\x08', "\1", {2});
  }

  // The field and one number of what the model gets.
  std::pair<std::string, float> image() {
    const auto data = build_data(disk_, job_, *no_components());
    if (!data) return {data.error().message, 0.0f};
    const auto& fields = data->training.fields();
    std::vector<float> image(static_cast<std::size_t>(element_count(fields[0].shape)));
    std::int64_t label = 0;
    const std::vector<TensorView> into{
        {DType::kF32, fields[0].shape, std::as_writable_bytes(std::span(image))},
        {DType::kI64, {}, std::as_writable_bytes(std::span(&label, 1))}};
    data::Pipeline::Scratch scratch(data->training);
    EXPECT_TRUE(data->training.read(0, 1, into, scratch));
    return {describe(fields[0]), image.back()};
  }

  void expect_refused(const std::string& why) {
    const auto data = build_data(disk_, job_, *no_components());
    ASSERT_FALSE(data) << why;
    EXPECT_EQ(data.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(data.error().message,
                AllOf(HasSubstr("/data/train-images-idx3-ubyte"), HasSubstr(why)));
  }

  testing::MemoryFiles disk_;
  job::JobSpec job_;
};

TEST_F(BuildDataTest, FloatsAreTakenAsTheyAre) {
  write_sets('\x0D', kHalf, {4, 3});
  EXPECT_THAT(image(), Pair("image F32 [1, 4, 3]", 0.5f));
  job_.data.mean = {0.25};
  job_.data.std = {0.125};
  EXPECT_THAT(image(), Pair("image F32 [1, 4, 3]", 2.0f));
}

TEST_F(BuildDataTest, VectorsOfBytesAreScaledLikeImages) {
  write_sets('\x08', "\x33", {5});
  EXPECT_THAT(image(), Pair("image F32 [5]", 0.2f));
  write_sets('\x08', "\x33", {5, 5});
  EXPECT_THAT(image(), Pair("image F32 [1, 5, 5]", 0.2f));
}

TEST_F(BuildDataTest, WhatTheModelCannotTakeIsRefusedWithTheFile) {
  write_sets('\x08', "\x33", {});
  expect_refused("yields image F32 [], but model mlp takes samples of one axis or more");
  job_.model.type = job::ModelType::kResnet;
  write_sets('\x0D', kHalf, {5});
  expect_refused("yields image F32 [5], but model resnet takes images");
}

}  // namespace
}  // namespace muster::app
