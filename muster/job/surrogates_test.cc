#include "muster/job/surrogates.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace muster::job {
namespace {

std::string hidden(std::string text) {
  hide_surrogates(text);
  return text;
}

TEST(Surrogates, ThatAreHiddenLeaveEverythingInItsPlace) {
  const std::string text = R"(a\ud83d\ude00, \\ud83d \\\uDBFF \u00e9 \ud83 \)";
  const std::string without = hidden(text);
  EXPECT_EQ(without.size(), text.size());
  EXPECT_EQ(std::count(without.begin(), without.end(), '\xC0'), 3) << without;
  EXPECT_EQ(shown_surrogates(without), text);
}

TEST(Surrogates, OfAPairAreOneCharacter) {
  EXPECT_EQ(*joined_surrogates(hidden(R"(\ud83d\ude00)")), "😀");
  EXPECT_EQ(*joined_surrogates(hidden(R"(a\uD83D\uDE00\ud800\udc00b\udbff\udfff)")),
            "a😀\U00010000b\U0010ffff");
  EXPECT_EQ(*joined_surrogates("ünïcode"), "ünïcode");
}

TEST(Surrogates, ThatStandAloneAreNamed) {
  for (const std::string text : {R"(\ud83d)", R"(\ud83da\ude00)", R"(\ud83d\ud83d\ude00)",
                                 R"(\ud83d\\ude00)", R"(\ud83d😀😀)"}) {
    const auto joined = joined_surrogates(hidden(text));
    ASSERT_FALSE(joined) << text;
    EXPECT_EQ(joined.error().message, "`\\ud83d` is half of a character") << text;
  }
  EXPECT_FALSE(joined_surrogates(hidden(R"(\ude00\ud83d)")));
}

}  // namespace
}  // namespace muster::job
