#include "muster/app/data/data_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/exit_code.h"
#include "muster/testing/temp_folder.h"

namespace muster::app {
namespace {

using muster::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DataFilesTest : public ::testing::Test {
 protected:
  // What is told of data of this type in that place; "" where nothing is wrong.
  std::string told(job::DataType type, const Path& path, const Path& validation = {}) {
    job::DataSpec data;
    data.type = type;
    data.path = path.string();
    data.validation_path = validation.string();
    const Status status = check_data_is_there(system_files(), data);
    return status ? "" : status.error().message;
  }
  Path write(const std::string& name) {
    EXPECT_TRUE(write_atomically(system_files(), folder_ / name, "text"));
    return folder_ / name;
  }
  TempFolder folder_;
};

TEST_F(DataFilesTest, AFileIsNoFolderOfIdxFiles) {
  const Path file = write("a.txt");
  EXPECT_THAT(told(job::DataType::kIdx, file),
              AllOf(HasSubstr("data.path: " + file.string() + " is a file"), HasSubstr("folder")));
}

TEST_F(DataFilesTest, AFolderIsNoText) {
  const Path file = write("a.txt");
  EXPECT_THAT(told(job::DataType::kText, folder_.path()), HasSubstr("data.path: "));
  EXPECT_THAT(told(job::DataType::kText, file, folder_.path()),
              AllOf(HasSubstr("data.validation_path: "), HasSubstr("is a folder"),
                    HasSubstr("takes one file")));
  EXPECT_EQ(told(job::DataType::kText, file), "");
}

TEST_F(DataFilesTest, AFolderInPlaceOfAnIdxFileIsAnEnvironmentThatLacksIt) {
  write("train-images");
  std::filesystem::create_directory(folder_ / "train-labels");
  job::DataSpec data;
  data.type = job::DataType::kIdx;
  data.path = folder_.path().string();
  data.train_images = data.validation_images = "train-images";
  data.train_labels = data.validation_labels = "train-labels";
  const Status status = check_data_is_there(system_files(), data);
  ASSERT_FALSE(status);
  EXPECT_EQ(exit_code(status.error().code), ExitCode::kEnvironment);
  EXPECT_THAT(status.error().message,
              AllOf(HasSubstr("data.train_labels: "), HasSubstr("train-labels is a folder")));
}

TEST_F(DataFilesTest, WhatIsMissingIsNamedWithItsField) {
  EXPECT_THAT(told(job::DataType::kText, folder_ / "none"),
              AllOf(HasSubstr("data.path: there is no"), Not(HasSubstr("script/data"))));
  EXPECT_THAT(told(job::DataType::kText, folder_ / "data/kjv.txt"),
              HasSubstr("script/data fetches what the shipped jobs use"));
  EXPECT_THAT(told(job::DataType::kIdx, folder_.path()),
              AllOf(HasSubstr("data.train_images"), HasSubstr(".gz")));
}

TEST_F(DataFilesTest, WeightsAreASafetensorsFileOrAFolder) {
  const auto told_of = [](const Path& weights) {
    job::ModelSpec model;
    model.weights = weights.string();
    const Status status = check_weights_are_there(system_files(), model);
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(told_of(folder_.path()), "");
  EXPECT_EQ(told_of(write("a.safetensors")), "");
  EXPECT_THAT(told_of(folder_ / "none"), HasSubstr("model.weights: there is no"));
  EXPECT_THAT(told_of(write("a.bin")), AllOf(HasSubstr("model.weights: "),
                                             HasSubstr("a.bin is a file whose name does not")));
}

}  // namespace
}  // namespace muster::app
