#include "muster/app/probe/notice.h"

#include <gtest/gtest.h>

namespace muster::app {
namespace {

bool says_so(const std::string& text, Asked asked = Asked::kAddress) {
  return is_notice({.text = text, .from = "somebody", .asked = asked});
}

TEST(Notice, IsWhatACloudSays) {
  EXPECT_TRUE(says_so("TRUE"));
  EXPECT_TRUE(says_so("TERMINATE_ON_HOST_MAINTENANCE"));
  EXPECT_TRUE(says_so(R"({"action": "terminate", "time": "2026-09-18T08:22:00Z"})"));
  EXPECT_TRUE(says_so(R"({"DocumentIncarnation": 2, "Events": [{"EventId": "A1",
      "EventType": "Preempt", "ResourceType": "VirtualMachine", "Resources": []}]})"));
}

TEST(Notice, IsNotWhatACloudSaysWhereThereIsNone) {
  for (const char* text : {"FALSE", "false", "False", " FALSE\r\n", "NONE", "none", "\tNone "}) {
    for (const Asked asked : {Asked::kFile, Asked::kCommand, Asked::kAddress})
      EXPECT_FALSE(says_so(text, asked)) << text;
  }
  EXPECT_FALSE(says_so(R"({"DocumentIncarnation":1,"Events":[]})"));
  EXPECT_FALSE(says_so("{\n  \"DocumentIncarnation\": 1,\n  \"Events\": [ ]\n}\n"));
  EXPECT_FALSE(says_so(R"({"DocumentIncarnation":1,"Events":[]})", Asked::kCommand));
}

TEST(Notice, NeedsAWordOfAnAddressOnly) {
  for (const char* text : {"", " ", "\r\n"}) {
    EXPECT_FALSE(says_so(text, Asked::kAddress));
    EXPECT_TRUE(says_so(text, Asked::kFile)) << "as `touch` makes it";
    EXPECT_TRUE(says_so(text, Asked::kCommand)) << "as `test -e` ends";
  }
}

TEST(Notice, MaySpeakOfOtherThingsThatAreNone) {
  EXPECT_TRUE(says_so("NONE of this host's siblings stays"));
  EXPECT_TRUE(says_so(R"(wanted back: "Events":[])"));
}

}  // namespace
}  // namespace muster::app
