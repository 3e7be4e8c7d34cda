#include "muster/cluster/meeting.h"

#include <gtest/gtest.h>

namespace muster::cluster {
namespace {

TEST(Meeting, OthersReachAProcessWhereItIsToldTo) {
  std::optional<std::string> told;
  const auto address = [&] {
    return address_for_others(
        [&](const std::string& name) {
          return name == kLocalAddressVariable ? told : std::nullopt;
        },
        {"127.0.0.1", 9});
  };
  EXPECT_EQ(address().value_or(""), "127.0.0.1") << "on the way to the coordinator";
  told = "127.0.0.6";
  EXPECT_EQ(address().value_or(""), "127.0.0.6");
  told = "198.51.100.7";
  EXPECT_NE(address().error().message.find("MUSTER_LOCAL_ADDR (muster launch --local-addr) is "
                                           "198.51.100.7, which is no address of this host"),
            std::string::npos)
      << address().error().message;
  told = "";
  EXPECT_EQ(address().value_or(""), "127.0.0.1");
}

TEST(Meeting, ThePatienceOfAJobHoldsUnlessAPersonSaysAnother) {
  using namespace std::chrono_literals;
  std::optional<std::string> told;
  const VariableLookup variable = [&](const std::string& name) {
    return name == kJoinTimeoutVariable ? told : std::nullopt;
  };
  EXPECT_EQ(meeting_patience(variable)->limit, 60s);
  EXPECT_EQ(meeting_patience(variable, 5s)->limit, 5s);
  EXPECT_EQ(meeting_patience(variable, 5s)->said_by, "workers.join_timeout");
  told = "2 min";
  EXPECT_EQ(meeting_patience(variable, 5s)->limit, 2min);
  EXPECT_EQ(meeting_patience(variable, 5s)->said_by, "MUSTER_JOIN_TIMEOUT");
  told = "soon";
  EXPECT_EQ(meeting_patience(variable, 5s).error().code, ErrorCode::kInvalid);
}

// 198.51.100.0/24 is for documentation: this host has no address of it.
TEST(Meeting, AnAddressOfAnotherHostIsDoubted) {
  const std::string doubt = doubt_about_meeting({"198.51.100.7", 29500});
  EXPECT_NE(doubt.find("198.51.100.7 (MASTER_ADDR) is no address of this host"), std::string::npos)
      << doubt;
  EXPECT_NE(doubt.find("set MASTER_ADDR, for all ranks, to "), std::string::npos) << doubt;
}

TEST(Meeting, ANameThatIsLoopbackIsDoubtedUnlessItIsMeant) {
  const std::string doubt = doubt_about_meeting({"0x7f000001", 29500});
  EXPECT_NE(doubt.find("is 127.0.0.1 on its own host"), std::string::npos) << doubt;
  for (const char* meant : {"127.0.0.1", "127.0.1.1", "localhost", "::1"})
    EXPECT_EQ(doubt_about_meeting({meant, 29500}), "") << meant;
  EXPECT_EQ(doubt_about_meeting({"no.such.host.invalid", 29500}), "") << "others tell of it";
}

}  // namespace
}  // namespace muster::cluster
