#include "muster/cli/launch_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli {
namespace {

using ::testing::HasSubstr;

LaunchOutput written_as(const LaunchFlags& flags,
                        const std::map<std::string, std::string>& environment = {}) {
  const auto output = launch_output(flags, environment);
  EXPECT_TRUE(output) << output.error().message;
  return output.value_or(LaunchOutput{});
}

std::string why_not_written(const LaunchFlags& flags,
                            const std::map<std::string, std::string>& environment = {}) {
  const auto output = launch_output(flags, environment);
  EXPECT_FALSE(output);
  return output ? "" : output.error().message;
}

TEST(StreamChoice, OfAllOrOfSome) {
  struct Case {
    std::string text;
    bool output0, errors0, output1, errors1;
  };
  for (const auto& [text, output0, errors0, output1, errors1] : std::vector<Case>{
           {"0", false, false, false, false},
           {"1", true, false, true, false},
           {"2", false, true, false, true},
           {"3", true, true, true, true},
           {"0:1", true, false, false, false},
           {"1:2,0:3", true, true, false, true},
           {"0:0,1:1", false, false, true, false},
       }) {
    const auto choice = StreamChoice::parse(text);
    ASSERT_TRUE(choice) << text;
    EXPECT_EQ(choice->has(0, false), output0) << text;
    EXPECT_EQ(choice->has(0, true), errors0) << text;
    EXPECT_EQ(choice->has(1, false), output1) << text;
    EXPECT_EQ(choice->has(1, true), errors1) << text;
  }
  for (const std::string text : {"", "4", "-1", "x", "1,2", ":", "0:", ":1", "0:4", "0:1,", "-1:1"})
    EXPECT_FALSE(StreamChoice::parse(text)) << text;
  EXPECT_TRUE(StreamChoice::parse("0:0,3:0")->is_empty());
  EXPECT_FALSE(StreamChoice::parse("3:1")->is_empty());
}

TEST(LaunchOutput, ShowsAllUnlessItIsRedirected) {
  EXPECT_TRUE(written_as({}).shows(0, true));
  EXPECT_TRUE(written_as({.log_folder = "logs"}).shows(1, false));
  const LaunchOutput output = written_as({.log_folder = "logs", .redirects = "3", .tee = "0:2"});
  EXPECT_EQ(output.log_folder, "logs");
  EXPECT_FALSE(output.shows(0, false));
  EXPECT_TRUE(output.shows(0, true)) << "what is teed is shown";
  EXPECT_FALSE(output.shows(1, true));
}

TEST(LaunchOutput, TorchrunsVariablesStandForFlags) {
  const LaunchOutput output = written_as(
      {.role = "trainer"}, {{"PET_LOG_DIR", "l"}, {"PET_REDIRECTS", "1"}, {"PET_ROLE", "x"}});
  EXPECT_EQ(output.log_folder, "l");
  EXPECT_EQ(output.role, "trainer");
  EXPECT_FALSE(output.shows(0, false));
}

TEST(LaunchOutput, WhatIsWrongIsNamed) {
  EXPECT_THAT(why_not_written({.tee = "4"}),
              HasSubstr("--tee is `4`; expected 0 (none), 1 (output)"));
  EXPECT_THAT(why_not_written({}, {{"PET_REDIRECTS", "all"}}), HasSubstr("PET_REDIRECTS is `all`"));
  EXPECT_THAT(why_not_written({.redirects = "3"}),
              HasSubstr("--redirects is `3`, and no folder is named"));
  EXPECT_TRUE(written_as({.redirects = "0", .tee = "3"}).log_folder.empty());
}

}  // namespace
}  // namespace muster::cli
