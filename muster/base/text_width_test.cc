#include "muster/base/text_width.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(DisplayWidth, CountsOneColumnOfMostCharacters) {
  EXPECT_EQ(display_width(""), 0u);
  EXPECT_EQ(display_width("model: {type: mlp}"), 18u);
  EXPECT_EQ(display_width("größe – …"), 9u);
}

TEST(DisplayWidth, CountsTwoOfWideCharactersAndEmoji) {
  EXPECT_EQ(display_width("模型"), 4u);
  EXPECT_EQ(display_width("한글かな"), 8u);
  EXPECT_EQ(display_width("🚀x"), 3u);
}

TEST(DisplayWidth, CountsNoneOfCombiningMarks) {
  EXPECT_EQ(display_width("e\u0301"), 1u);
  EXPECT_EQ(display_width("n\u0303o"), 2u);
}

TEST(DisplayWidth, CountsOneOfWhatIsNoText) {
  EXPECT_EQ(display_width("a\xff"
                          "b"),
            3u);
  EXPECT_EQ(display_width("a\xe6\xa8"), 2u);  // half a character
  EXPECT_EQ(display_width(std::string_view("\0\t", 2)), 2u);
}

TEST(CutToWidth, KeepsWholeCharacters) {
  EXPECT_EQ(cut_to_width("größe", 3), "grö");
  EXPECT_EQ(cut_to_width("模型x", 3), "模");
  EXPECT_EQ(cut_to_width("e\u0301x", 1), "e\u0301");
  EXPECT_EQ(cut_to_width("abc", 80), "abc");
  EXPECT_EQ(cut_to_width("abc", 0), "");
}

TEST(Wrapped, BreaksAtBlanks) {
  EXPECT_THAT(wrapped("one two three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(wrapped("one two three", 13), ElementsAre("one two three"));
  EXPECT_THAT(wrapped("", 7), ElementsAre(""));
}

TEST(Wrapped, MeasuresColumnsNotBytes) {
  EXPECT_THAT(wrapped("größe größe", 11), ElementsAre("größe größe"));
  EXPECT_THAT(wrapped("模型 模型", 8), ElementsAre("模型", "模型"));
}

TEST(Wrapped, LeavesALongWordWhole) {
  EXPECT_THAT(wrapped("see /a/long/path now", 6), ElementsAre("see", "/a/long/path", "now"));
}

TEST(Wrapped, KeepsTheLinesThatThereAre) {
  EXPECT_THAT(wrapped("one\n\ntwo three", 5), ElementsAre("one", "", "two", "three"));
}

TEST(Wrapped, IndentsAllButTheFirst) {
  EXPECT_EQ(wrapped_behind("one two three", 9, 2), "one two\n  three");
  EXPECT_EQ(wrapped_behind("one\n\ntwo", 9, 2), "one\n\n  two");
}

TEST(Fitted, BreaksOnlyLinesThatAreTooLong) {
  EXPECT_EQ(fitted("one two\nthree  four", 11), "one two\nthree  four");
  EXPECT_EQ(fitted("one two three four", 11), "one two\n  three\n  four");
  EXPECT_EQ(fitted(" one two three", 10), " one two\n   three");
  EXPECT_EQ(fitted("one two three", 0), "one two three");
}

TEST(Fitted, KeepsPathsAndWhatStandsBetweenBackTicksWhole) {
  EXPECT_EQ(fitted("see /a/long/path now", 9), "see\n  /a/long/path\n  now");
  EXPECT_EQ(fitted("run `a b c`, then wait", 12), "run\n  `a b c`,\n  then wait");
  EXPECT_EQ(fitted("it is `a b`/`c d` here", 12), "it is\n  `a b`/`c d`\n  here");
  EXPECT_EQ(fitted("one ` of two marks", 10), "one ` of\n  two\n  marks");
}

}  // namespace
}  // namespace muster
