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
  told = "10.0.0.6";
  EXPECT_EQ(address().value_or(""), "10.0.0.6");
  told = "";
  EXPECT_EQ(address().value_or(""), "127.0.0.1");
}

}  // namespace
}  // namespace muster::cluster
