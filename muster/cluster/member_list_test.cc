#include "muster/cluster/member_list.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "muster/cluster/member_columns.h"

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
TEST(MemberList, TakesTwoBytesForEachWorkerOfAHost) {
  std::vector<MemberInfo> members;
  for (std::int32_t i = 0; i < 1000; ++i)
    members.push_back(
        {Rank{i}, {i, "a-host-with-a-long-name.example.org", "boot", 30'000 + i * i % 23, ""}});
  EXPECT_LT(MemberList(std::move(members)).encoded()->size(), 2'300U);
}

TEST(MemberList, ADoorIsNamedOnceForAllPorts) {
  std::vector<MemberInfo> members;
  for (std::int32_t i = 0; i < 1000; ++i)
    members.push_back({Rank{i},
                       {i, "host", "boot", 30'000 + i,
                        "[2001:db8::1234:5678]:" + std::to_string(40'000 + i * i % 9'973)}});
  EXPECT_LT(MemberList(std::move(members)).encoded()->size(), 3'300U);
}

TEST(MemberList, AnyTextMayBeADoor) {
  for (const char* door : {"", ":", "a", "a:", "a:007", "a:70000", "a:-1", "a:0", "::1:9", "9"}) {
    const MemberList members{{Rank{0}, {0, "a", "", 1, door}}};
    EXPECT_EQ(decode_member_list(*members.encoded()).value()[0].info.door, door);
  }
}

TEST(MemberList, OtherMessagesAreNone) {
  const auto decoded = decode_member_list(net::encode_message(2, "welcome", {{"hosts", 1}}));
  ASSERT_FALSE(decoded);
  EXPECT_NE(decoded.error().message.find("\"welcome\" is no list of members"), std::string::npos);
}

class DamagedColumns : public ::testing::Test {
 protected:
  bool are_taken() const {
    return decode_member_list(net::encode_message(2, "members", columns_)).has_value();
  }

  nlohmann::json columns_ = to_columns(members_of(3));
};

TEST_F(DamagedColumns, OfDifferentLengthsAreRefused) {
  EXPECT_TRUE(are_taken());
  columns_["worker"] = {1, 2};
  EXPECT_FALSE(are_taken());
}

TEST_F(DamagedColumns, ThatNameNoHostAreRefused) {
  for (const int place : {1, -1}) {
    columns_["host"] = {0, 0, place};
    EXPECT_FALSE(are_taken());
  }
}

TEST_F(DamagedColumns, ThatAnnounceTooManyAreRefusedBeforeAnyIsMade) {
  for (auto& [name, column] : columns_.items())
    if (name != "hosts" && name != "places")
      column = nlohmann::json::array({nlohmann::json::array({0, std::int64_t{1} << 40})});
  EXPECT_FALSE(are_taken());
}

TEST_F(DamagedColumns, OfNumbersThatAreTooLargeAreRefused) {
  columns_["pid"] = {std::int64_t{1} << 31, 0, 0};
  EXPECT_FALSE(are_taken());
  columns_["pid"] = {1, std::numeric_limits<std::int64_t>::max(), 0};
  EXPECT_FALSE(are_taken());
}

class MemberChanges : public ::testing::Test {
 protected:
  static MemberInfo newcomer(std::int32_t worker) {
    return {Rank{0}, {worker, "new", "boot", 7, "new:1"}};
  }
  // The workers at these places of the list before, and -1 for one that is new.
  MemberList after(const std::vector<std::int32_t>& places) const {
    std::vector<MemberInfo> members;
    for (const std::int32_t place : places) {
      members.push_back(place < 0 ? newcomer(1000 + static_cast<std::int32_t>(members.size()))
                                  : before_[static_cast<std::size_t>(place)]);
      members.back().rank = Rank{static_cast<std::int32_t>(members.size()) - 1};
    }
    return MemberList(std::move(members));
  }
  std::vector<std::int32_t> all() const {
    std::vector<std::int32_t> places(before_.size());
    std::iota(places.begin(), places.end(), 0);
    return places;
  }

  const MemberList before_{members_of(1000)};
};

TEST_F(MemberChanges, TakeAFewBytesWhereFewHaveChanged) {
  std::vector<std::int32_t> places = all();
  places.erase(places.begin() + 500);
  places.push_back(-1);
  std::rotate(places.begin(), places.begin() + 7, places.begin() + 8);
  const MemberList now = after(places);
  const auto bytes = now.encoded_after(before_);
  EXPECT_LT(bytes->size(), 250U);
  EXPECT_EQ(decode_member_list(*bytes, before_).value(), now);
}

TEST_F(MemberChanges, OneThatComesAnewIsNotWhoItWas) {
  std::vector<MemberInfo> members = before_.list();
  members[3].info.pid = 4711;
  members[4].info.has_state = !members[4].info.has_state;
  const MemberList now(members);
  EXPECT_EQ(decode_member_list(*now.encoded_after(before_), before_).value(), now);
}

TEST_F(MemberChanges, AreMadeOnceForAllWhoKnowTheSame) {
  const MemberList now = after({0, 1, -1});
  const MemberList one = before_;
  EXPECT_EQ(now.encoded_after(one), now.encoded_after(before_));
}

TEST_F(MemberChanges, AreAllOfThemWhereThatIsLess) {
  const MemberList now = after({-1, -1});
  EXPECT_EQ(*now.encoded_after(before_), *now.encoded());
  EXPECT_EQ(*now.encoded_after({}), *now.encoded());
  EXPECT_EQ(decode_member_list(*now.encoded()).value(), now) << "whatever was there before";
}

TEST_F(MemberChanges, OfAnotherListAreRefused) {
  const auto bytes = after(all()).encoded_after(before_);
  ASSERT_TRUE(decode_member_list(*bytes, before_));
  const auto decoded = decode_member_list(*bytes, MemberList(members_of(999)));
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, ErrorCode::kCorrupt);
}

TEST_F(MemberChanges, WithPiecesThatAreNotThereAreRefused) {
  using Pieces = std::vector<std::vector<std::int64_t>>;
  const auto is_taken = [&](const Pieces& pieces) {
    const nlohmann::json changes = {
        {"before", 1000}, {"pieces", pieces}, {"new", to_columns({newcomer(1000)})}};
    return decode_member_list(net::encode_message(2, "member_changes", changes), before_)
        .has_value();
  };
  EXPECT_TRUE(is_taken({{0, 1000}, {-1, 1}}));
  const std::vector<Pieces> wrong{{{0, 1001}, {-1, 1}},
                                  {{1000, 1}, {-1, 1}},
                                  {{-2, 1}, {-1, 1}},
                                  {{0, -1}, {-1, 1}},
                                  {{0, 5}},
                                  {{-1, 2}},
                                  {{0}, {-1, 1}},
                                  {{0, 1000}, {0, 1000}, {-1, 1}}};
  for (const Pieces& pieces : wrong) EXPECT_FALSE(is_taken(pieces)) << nlohmann::json(pieces);
}

RC_GTEST_PROP(MemberList, ChangesMakeOneListOfAnother, ()) {
  const auto some = [](const std::vector<MemberInfo>& from) {
    std::vector<MemberInfo> members;
    for (MemberInfo member : from) {
      if (*rc::gen::inRange(0, 3) == 0) continue;
      if (*rc::gen::inRange(0, 4) == 0) member.info.pid += 5000;
      member.rank = Rank{static_cast<std::int32_t>(members.size())};
      members.push_back(std::move(member));
    }
    return members;
  };
  const MemberList before(some(members_of(20)));
  const MemberList after(some(members_of(20)));
  const auto decoded = decode_member_list(*after.encoded_after(before), before);
  RC_ASSERT(decoded.has_value());
  RC_ASSERT(*decoded == after);
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

// The lists of several members that know the same become one again, though others read in between.
TEST(MemberLists, ChangesAreReadOnceForAllWhoKnowTheSame) {
  MemberLists lists;
  const MemberList two(members_of(200));
  std::vector<MemberInfo> more = members_of(200);
  more.push_back({Rank{200}, {500, "node90", "boot of node90", 7, "", true, false}});
  const MemberList three(more);
  const auto bytes = three.encoded_after(two);
  ASSERT_LT(bytes->size(), three.encoded()->size()) << "changes";
  const auto first = lists.read(*bytes, two).value();
  EXPECT_EQ(first, three);
  EXPECT_EQ(&lists.read(*bytes, MemberList(members_of(200))).value().list(), &first.list());
  EXPECT_FALSE(lists.read(*bytes, three)) << "the same bytes, of another list";
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
