#include "muster/data/formats/text/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "muster/testing/temp_folder.h"

namespace muster::data {
namespace {

using muster::testing::TempFolder;
using ::testing::HasSubstr;

class TextSourceTest : public ::testing::Test {
 protected:
  Result<SourcePtr> open(const std::string& text, std::int64_t context,
                         TextPart part = TextPart::kAll, double fraction = 0.1) {
    return create_text_source(system_files(), {write("text", text), context, part, fraction});
  }

  static std::string window(const Source& source, std::int64_t index) {
    std::string text(static_cast<std::size_t>(source.fields()[0].shape[0]), '?');
    const std::span<char> chars(text);
    const std::vector<TensorView> into{
        {DType::kU8, source.fields()[0].shape, std::as_writable_bytes(chars)}};
    EXPECT_TRUE(source.read(index, into));
    return text;
  }

  Path write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }

  TempFolder folder_;
};

TEST_F(TextSourceTest, WindowsShareTheByteBetweenThem) {
  const auto source = open("abcdefghi", 4);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->fields(), (std::vector<FieldSpec>{{"tokens", DType::kU8, {5}}}));
  ASSERT_EQ((*source)->size(), 2);
  EXPECT_EQ(window(**source, 0), "abcde");
  EXPECT_EQ(window(**source, 1), "efghi");
}

TEST_F(TextSourceTest, TheLastWindowStartsEarlierInsteadOfBeingDropped) {
  const auto source = open("abcdefghijk", 4);
  ASSERT_TRUE(source);
  ASSERT_EQ((*source)->size(), 3);
  EXPECT_EQ(window(**source, 2), "ghijk");
}

TEST_F(TextSourceTest, EveryByteButTheFirstIsATargetAndFewTwice) {
  for (std::int64_t size = 6; size < 60; ++size) {
    std::string text;
    for (std::int64_t i = 0; i < size; ++i) text += static_cast<char>(i);
    const auto source = open(text, 5);
    ASSERT_TRUE(source);
    std::map<char, int> targets;
    for (std::int64_t i = 0; i < (*source)->size(); ++i) {
      for (const char byte : window(**source, i).substr(1)) ++targets[byte];
    }
    EXPECT_EQ(static_cast<std::int64_t>(targets.size()), size - 1);
    EXPECT_FALSE(targets.contains(0));
    int twice = 0;
    for (const auto& [byte, times] : targets) twice += times - 1;
    EXPECT_LT(twice, 5);
  }
}

TEST_F(TextSourceTest, TheValidationPartIsTheTailAndTouchesNoTrainingByte) {
  const std::string text = "0123456789abcdefghij";
  const auto training = open(text, 3, TextPart::kTraining, 0.25);
  const auto validation = open(text, 3, TextPart::kValidation, 0.25);
  ASSERT_TRUE(training && validation);
  EXPECT_EQ(window(**training, (*training)->size() - 1), "bcde");
  EXPECT_EQ(window(**validation, 0), "fghi");
  EXPECT_EQ(window(**validation, (*validation)->size() - 1), "ghij");
}

TEST_F(TextSourceTest, RefusesATextShorterThanAWindow) {
  EXPECT_TRUE(open("abcde", 4));
  const auto source = open("abcd", 4);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(source.error().message, HasSubstr("has 4 bytes, but data.context_length is 4, "));
  EXPECT_FALSE(open("", 4));
  EXPECT_FALSE(open("abcdefghijk", 4, TextPart::kValidation, 0));
}

TEST_F(TextSourceTest, RefusesOptionsOutOfRange) {
  EXPECT_FALSE(open("abcdef", 0));
  EXPECT_FALSE(open("abcdef", 2, TextPart::kAll, 1.0));
  EXPECT_FALSE(open("abcdef", 2, TextPart::kAll, -0.1));
}

TEST_F(TextSourceTest, NamesAMissingFile) {
  const auto source = create_text_source(system_files(), {folder_.path() / "none", 4});
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(source.error().message, HasSubstr("none"));
}

}  // namespace
}  // namespace muster::data
