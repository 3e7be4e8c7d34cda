#include "muster/cluster/member_list.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace muster::cluster {
namespace {

std::vector<MemberInfo> members_of(std::int32_t count) {
  std::vector<MemberInfo> members;
  for (std::int32_t i = 0; i < count; ++i) {
    const std::string host = "node" + std::to_string(i / 8);
    const bool even = i % 2 == 0;
    members.push_back({Rank{i},
                       {count - i, host, "boot of " + host, 1000 + i,
                        even ? host + ":" + std::to_string(4000 + i) : "", even, !even}});
  }
  return members;
}

TEST(MemberList, ComesBackAsItWas) {
  for (const std::int32_t count : {0, 1, 2, 100}) {
    const MemberList members(members_of(count));
    const auto decoded = decode_member_list(*members.encoded());
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(decoded->list(), members_of(count));
    EXPECT_EQ(*decoded->encoded(), *members.encoded());
  }
}

TEST(MemberList, CopiesShareListAndBytes) {
  const std::vector<MemberList> copies(2, MemberList(members_of(3)));
  EXPECT_EQ(&copies[0].list(), &copies[1].list());
  EXPECT_EQ(copies[0].encoded(), copies[1].encoded());
}

TEST(MemberList, BytesOutliveTheList) {
  const auto bytes = MemberList(members_of(2)).encoded();
  EXPECT_EQ(decode_member_list(*bytes).value().size(), 2U);
}

// All are told of all: what one takes in it counts squared.
TEST(MemberList, TakesAFewBytesForEachWorkerOfAHost) {
  std::vector<MemberInfo> members;
  for (std::int32_t i = 0; i < 1000; ++i)
    members.push_back(
        {Rank{i}, {i, "a-host-with-a-long-name.example.org", "boot", 30'000 + i, ""}});
  EXPECT_LT(MemberList(std::move(members)).encoded()->size(), 14'000U);
}

TEST(MemberList, OtherMessagesAreNone) {
  const auto decoded = decode_member_list(net::encode_message(1, "welcome", {{"hosts", 1}}));
  ASSERT_FALSE(decoded);
  EXPECT_NE(decoded.error().message.find("\"welcome\" is no list of members"), std::string::npos);
}

TEST(MemberList, ColumnsOfDifferentLengthsAreRefused) {
  auto columns =
      nlohmann::json{{"hosts", nlohmann::json::array({nlohmann::json::array({"h", "b"})})},
                     {"host", {0, 0}},
                     {"worker", {0}},
                     {"pid", {1, 2}},
                     {"door", {"", ""}},
                     {"can_lead", {true, true}},
                     {"has_state", {true, true}}};
  EXPECT_FALSE(decode_member_list(net::encode_message(1, "members", columns)));
  columns["worker"] = {0, 1};
  EXPECT_TRUE(decode_member_list(net::encode_message(1, "members", columns)));
  columns["host"] = {0, 1};
  EXPECT_FALSE(decode_member_list(net::encode_message(1, "members", columns))) << "no such host";
}

TEST(MemberLists, WhatOneWasToldIsNotReadAgain) {
  MemberLists lists;
  const MemberList two(members_of(2));
  const auto first = lists.read(*two.encoded()).value();
  EXPECT_EQ(&lists.read(*two.encoded()).value().list(), &first.list());
  EXPECT_EQ(lists.read(*MemberList(members_of(3)).encoded()).value().size(), 3U);
  EXPECT_FALSE(lists.read({}));
  EXPECT_EQ(lists.read(*two.encoded()).value(), two);
}

RC_GTEST_PROP(MemberList, DamagedOnesAreDecodedOrRefusedButNeverCrash, ()) {
  auto bytes = *MemberList(members_of(5)).encoded();
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i)
    bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] =
        std::byte{*rc::gen::arbitrary<std::uint8_t>()};
  bytes.resize(*rc::gen::inRange<std::size_t>(0, bytes.size() + 1));
  (void)decode_member_list(bytes);
}

}  // namespace
}  // namespace muster::cluster
