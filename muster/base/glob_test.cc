#include "muster/base/glob.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace muster {
namespace {

TEST(Glob, StarsStandForAnythingAndQuestionMarksForOne) {
  EXPECT_TRUE(matches("head.weight", "head.weight"));
  EXPECT_FALSE(matches("head.weight", "head.weights"));
  EXPECT_FALSE(matches("head.weight", "head"));
  EXPECT_TRUE(matches("*.bias", "layer0.linear.bias"));
  EXPECT_FALSE(matches("*.bias", "layer0.linear.bias.extra"));
  EXPECT_TRUE(matches("layer?.*", "layer3.norm1.weight"));
  EXPECT_FALSE(matches("layer?.*", "layer13.norm1.weight"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_FALSE(matches("?", ""));
  EXPECT_TRUE(matches("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(matches("a*b*c", "aXcYb"));
  EXPECT_TRUE(matches("*norm*", "layer0.norm1.weight"));
  EXPECT_TRUE(matches("**a", "aa"));
  EXPECT_FALSE(matches("[ab]", "a"));
}

TEST(Glob, RangesStandForWholeNumbers) {
  EXPECT_TRUE(matches("layer[0-3]", "layer3"));
  EXPECT_FALSE(matches("layer[0-3]", "layer4"));
  EXPECT_FALSE(matches("layer[0-3]", "layer13"));
  EXPECT_FALSE(matches("layer[0-3]", "layer"));
  EXPECT_FALSE(matches("layer[0-3]", "layerx"));
  EXPECT_TRUE(matches("layer[8-12].*", "layer11.norm1.weight"));
  EXPECT_FALSE(matches("layer[8-12].*", "layer1.norm1.weight"));
  EXPECT_TRUE(matches("layer1[0-3]", "layer12")) << "as in a shell";
  EXPECT_TRUE(matches("stage[0-1]_block[0-9]", "stage1_block7"));
  EXPECT_TRUE(matches("*[0-3]", "layer3"));
  EXPECT_FALSE(matches("*[0-3]", "layer13")) << "a number begins with its first digit";
  EXPECT_TRUE(matches("*[0-3]*", "a7.b2.c"));
  EXPECT_FALSE(matches("layer[3-0]", "layer2"));
  EXPECT_FALSE(matches("layer[0-3]", "layer00000000000000000001"));
  for (const std::string_view no_range : {"[0-", "[-3]", "[a-c]", "[0]", "[0-3", "[]"}) {
    EXPECT_TRUE(matches(no_range, no_range));
    EXPECT_FALSE(matches(no_range, "0"));
  }
}

TEST(Glob, AnyOfSeveral) {
  const std::vector<std::string> patterns{"a.*", "*.b"};
  EXPECT_TRUE(matches_any(patterns, "x.b"));
  EXPECT_FALSE(matches_any(patterns, "x.c"));
  EXPECT_FALSE(matches_any({}, "x.c"));
}

}  // namespace
}  // namespace muster
