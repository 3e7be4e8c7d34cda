#include "muster/cluster/port_owner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/testing/soon.h"

namespace muster::cluster {
namespace {

using muster::testing::soon;
using ::testing::HasSubstr;

class PortOwnerTest : public ::testing::Test {
 protected:
  static StartedBy rank(std::int32_t rank, std::int32_t ranks, const std::string& id = "") {
    return {.launcher = "RANK and WORLD_SIZE",
            .rank = rank,
            .ranks = ranks,
            .meeting = {"head", 29500},
            .attempt = id};
  }
  PortOwnerTest() { EXPECT_TRUE(own_port(*store_, rank(0, 2), first_, soon())); }
  std::string refusal(const StartedBy& by, const MeetingProcess& self) {
    const Status checked = check_port_owner(*store_, by, self, soon());
    if (checked) return "";
    EXPECT_EQ(checked.error().code, ErrorCode::kUnavailable);
    return checked.error().message;
  }

  const MeetingProcess first_{.host = "a", .pid = 7, .program = "train"};
  const MeetingProcess other_{.host = "b", .pid = 9, .program = "tune"};
  const std::unique_ptr<KvStore> store_ = create_memory_store();
};

TEST_F(PortOwnerTest, ItsOwnRanksComeIn) {
  EXPECT_EQ(refusal(rank(1, 2), first_), "");
  EXPECT_EQ(refusal(rank(1, 2), {.host = "b", .pid = 8, .program = "train --fast"}), "")
      << "a command may differ from rank to rank";
}

TEST_F(PortOwnerTest, AnotherSizeOrIdIsAnotherJob) {
  const std::string owner =
      "port 29500 of head already serves another job: 2 ranks started by RANK and WORLD_SIZE, rank "
      "0 is pid 7 on a; ";
  EXPECT_THAT(refusal(rank(1, 3), first_), HasSubstr(owner + "this one has 3 ranks; give each"));
  EXPECT_THAT(refusal(rank(1, 2, "night"), first_), HasSubstr("this one has the id `night`"));
  ASSERT_TRUE(own_port(*store_, rank(0, 2, "day"), first_, soon()));
  EXPECT_THAT(refusal(rank(1, 2, "night"), first_), HasSubstr("with the id `day`"));
  EXPECT_THAT(refusal(rank(1, 2), first_), HasSubstr("this one has no id"));
}

TEST_F(PortOwnerTest, ASecondRankZeroIsToldAndItsRanksByIt) {
  EXPECT_EQ(contender_at_port(*store_, rank(0, 2), soon()), "");
  const auto told = contest_port(*store_, rank(0, 2), other_, soon());
  ASSERT_TRUE(told);
  EXPECT_THAT(told->message, HasSubstr("already serves another job"));
  EXPECT_THAT(told->message, HasSubstr("this one has a rank 0 of its own"));
  EXPECT_THAT(contender_at_port(*store_, rank(0, 2), soon()), HasSubstr("pid 9 on b"));
  EXPECT_THAT(refusal(rank(1, 2), {.host = "c", .pid = 10, .program = "tune"}),
              HasSubstr("this one's rank 0, pid 9 on b, was turned away there"));
  EXPECT_EQ(refusal(rank(1, 2), first_), "") << "the owner's go on";
}

TEST_F(PortOwnerTest, AContenderOfAnotherSizeIsNoDangerToAnybody) {
  ASSERT_TRUE(contest_port(*store_, rank(0, 3), other_, soon()));
  EXPECT_EQ(contender_at_port(*store_, rank(0, 2), soon()), "");
  EXPECT_EQ(refusal(rank(1, 2), other_), "");
}

TEST_F(PortOwnerTest, WhatIsNoJobIsNotTakenForOne) {
  const auto empty = create_memory_store();
  const Deadline at_once = Deadline::after(system_clock(), std::chrono::milliseconds(1));
  EXPECT_FALSE(contest_port(*empty, rank(0, 2), first_, at_once));
  ASSERT_TRUE(store_->set("job", to_bytes("{}"), soon()));
  EXPECT_FALSE(contest_port(*store_, rank(0, 2), other_, soon()));
  EXPECT_EQ(check_port_owner(*store_, rank(1, 2), first_, soon()).error().code,
            ErrorCode::kCorrupt);
}

TEST_F(PortOwnerTest, WhoHasTheSeatIsNamed) {
  EXPECT_THAT(seat_is_taken({"head", 29500}, 1, "a", 7),
              HasSubstr("port 29500 of head already serves another job, or this rank was started "
                        "twice: rank 1 there is pid 7 on a"));
}

}  // namespace
}  // namespace muster::cluster
