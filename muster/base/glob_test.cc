#include "muster/base/glob.h"

#include <gtest/gtest.h>

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

TEST(Glob, AnyOfSeveral) {
  const std::vector<std::string> patterns{"a.*", "*.b"};
  EXPECT_TRUE(matches_any(patterns, "x.b"));
  EXPECT_FALSE(matches_any(patterns, "x.c"));
  EXPECT_FALSE(matches_any({}, "x.c"));
}

}  // namespace
}  // namespace muster
