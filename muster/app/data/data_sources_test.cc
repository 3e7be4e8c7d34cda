#include "muster/app/data/data_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/testing/temp_folder.h"

namespace muster::app {
namespace {

using muster::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DataSourcesTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) {
    ASSERT_TRUE(write_atomically(system_files(), folder_ / name, content));
  }
  // Bytes in rows of `width`, or labels.
  void write_idx(const std::string& name, const std::string& bytes, int width = 0) {
    const int rank = width > 0 ? 2 : 1;
    std::string text{'\0', '\0', '\x08', static_cast<char>(rank)};
    text += {'\0', '\0', '\0', static_cast<char>(bytes.size() / std::max(width, 1))};
    if (width > 0) text += {'\0', '\0', '\0', static_cast<char>(width)};
    write(name, text + bytes);
  }
  void write_sets() {
    write_idx(job_.data.train_images, "abcdef", 2);
    write_idx(job_.data.train_labels, "\1\2\3");
    write_idx(job_.data.validation_images, "gh", 2);
    write_idx(job_.data.validation_labels, "\4");
    job_.data.type = job::DataType::kIdx;
    job_.data.path = folder_.path().string();
  }
  DataCard card() {
    const auto opened = open_data(system_files(), job_);
    EXPECT_TRUE(opened) << opened.error().message;
    return opened && opened->card ? *opened->card : DataCard();
  }
  // What a run that began with the data as it was before says of it as it is now.
  std::string told() {
    const Status kept = keep_data_card(system_files(), folder_ / "data.json", card());
    return kept ? "" : kept.error().message;
  }

  TempFolder folder_;
  job::JobSpec job_;
};

TEST_F(DataSourcesTest, OfIdxARunGoesOnWithTheSameContentsOnly) {
  write_sets();
  EXPECT_EQ(card().training, 3);
  EXPECT_EQ(card().validation, 1);
  EXPECT_EQ(told(), "");
  EXPECT_EQ(told(), "");
  const std::pair<std::string, std::string> images{job_.data.train_images, "abcdeF"};
  const std::pair<std::string, std::string> evaluation{job_.data.validation_images, "gH"};
  for (const auto& [name, bytes] : {images, evaluation}) {
    write_idx(name, bytes, 2);
    EXPECT_THAT(told(), HasSubstr("not what this run began with (other samples, though as many"));
    write_sets();
    EXPECT_EQ(told(), "");
  }
  write_idx(job_.data.train_labels, "\1\2\4");
  EXPECT_THAT(told(), HasSubstr("not what this run began with"));
  write_idx(job_.data.train_images, "abcd", 2);
  write_idx(job_.data.train_labels, "\1\2");
  EXPECT_THAT(told(), HasSubstr("(3 samples to train on then, 2 now)"));
}

TEST_F(DataSourcesTest, OfTextARunGoesOnWithTheSameContentsOnly) {
  job_.data.type = job::DataType::kText;
  job_.data.path = (folder_ / "text").string();
  job_.data.context_length = 4;
  job_.data.validation_split = 0.5;
  write("text", "in the beginning was the word");
  EXPECT_EQ(told(), "");
  write("text", "in the beginning was the ward");
  EXPECT_THAT(told(), HasSubstr("not what this run began with"));
  write("text", "in the beginning was the word");
  EXPECT_EQ(told(), "");
}

TEST_F(DataSourcesTest, ACardSaysNothingOfClassesThatHaveNoNames) {
  write_sets();
  EXPECT_THAT(to_json(card()), AllOf(HasSubstr("\"training\": 3"), HasSubstr("fingerprint"),
                                     Not(HasSubstr("classes")), Not(HasSubstr("target"))));
}

}  // namespace
}  // namespace muster::app
