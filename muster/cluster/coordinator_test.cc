// The coordinator's state machine, without network, threads or real time.
#include <gmock/gmock.h>

#include "muster/cluster/testing/coordinator_world.h"

namespace muster::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

TEST_F(CoordinatorStateTest, PublishesOnceAllHaveJoinedInAnyOrder) {
  join(7, 1);
  EXPECT_EQ(told(), Told{});
  EXPECT_EQ(state_->generation(), Generation{0});
  join(8, 0);
  EXPECT_EQ(told(), Told{"generation 1"});
  EXPECT_EQ(std::get<Welcome>(sent_[7].at(0)).rank, Rank{1});
  EXPECT_EQ(std::get<Welcome>(sent_[8].at(0)).rank, Rank{0});
}

TEST_F(CoordinatorStateTest, AllAreToldOneListOfMembers) {
  join(7, 1);
  EXPECT_THAT(state_->reason(), HasSubstr("1 of at least 2 workers have joined"));
  join(8, 0);
  const auto& first = std::get<Welcome>(sent_[7].at(0)).members;
  const auto& second = std::get<Welcome>(sent_[8].at(0)).members;
  EXPECT_EQ(&first.list(), &second.list());
}

// The last of many, of whom each is expected at a time of its own.
TEST_F(CoordinatorStateTest, ExpectsWhoHasBeenSilentLongest) {
  make(3);
  for (std::int32_t worker = 0; worker < 3; ++worker) {
    join(static_cast<PeerId>(worker + 1), worker);
    pass(seconds(1));
  }
  told();
  EXPECT_EQ(state_->next_clock(now_), TimePoint(seconds(110)));
  say(1, Heartbeat{});
  say(2, Heartbeat{});
  pass(seconds(9) - milliseconds(1));  // to just before worker 2's end, past that of the others'
  say(1, Heartbeat{});
  say(2, Heartbeat{});
  EXPECT_EQ(told(), Told{});
  pass(milliseconds(1));
  EXPECT_EQ(told(), Told{"silent 2"});
}

TEST_F(CoordinatorStateTest, NamesWhoDidNotJoin) {
  make(4);
  join(1, 2);
  now_ += seconds(60);
  say(1, Heartbeat{});
  perform(state_->on_clock(now_));
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_NE(told_[0].find("workers 0, 1 and 3 (of 4) did not join in time"), std::string::npos)
      << told_[0];
  perform(state_->on_clock(now_ + seconds(1)));
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(CoordinatorStateTest, NamesTheOneWhoDidNotJoinAsOne) {
  make(3);
  join(1, 0);
  join(2, 1);
  now_ += seconds(60);
  say(1, Heartbeat{});
  say(2, Heartbeat{});
  perform(state_->on_clock(now_));
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_NE(told_[0].find(" worker 2 (of 3) did not join in time"), std::string::npos) << told_[0];
}

TEST_F(CoordinatorStateTest, NoticesSilenceOnceAndOnTime) {
  join(1, 0);
  join(2, 1);
  told();
  pass(seconds(5));
  say(1, Heartbeat{});
  EXPECT_EQ(state_->next_clock(now_), TimePoint(seconds(110)));
  now_ = state_->next_clock(now_);
  perform(state_->on_clock(now_));
  EXPECT_EQ(told(), Told{"silent 1"});
  perform(state_->on_clock(now_ + milliseconds(1)));
  EXPECT_EQ(told(), Told{});
  EXPECT_GT(state_->next_clock(now_), now_);
}

TEST_F(CoordinatorStateTest, NobodyWasSilentWhileItDidNotRunItself) {
  join(1, 0);
  join(2, 1);
  now_ += seconds(60);  // six times what a worker may be silent
  perform(state_->on_clock(now_));
  EXPECT_EQ(told(), Told{"generation 1"});
  pass(seconds(9));
  say(1, Heartbeat{});
  pass(seconds(1));
  EXPECT_EQ(told(), Told{"silent 1"}) << "who stays silent is lost";
}

TEST_F(CoordinatorStateTest, ABrokenConnectionIsALossAGoodbyeIsNone) {
  join(1, 0);
  join(2, 1);
  told();
  say(1, Leave{});
  perform(state_->on_closed(1, {}, now_));
  EXPECT_EQ(told(), Told{"left 0"});
  perform(state_->on_closed(2, {}, now_));
  EXPECT_EQ(told(), Told{"lost 1"});
  now_ += seconds(100);
  perform(state_->on_clock(now_));
  EXPECT_EQ(told(), Told{});
}

TEST_F(CoordinatorStateTest, RefusesStrangersAndDoubles) {
  say(5, Heartbeat{});
  EXPECT_TRUE(closed_.contains(5));
  join(1, 0);
  join(2, 0);
  EXPECT_TRUE(closed_.contains(2));
  join(3, 2);
  EXPECT_TRUE(closed_.contains(3));
  join(4, -1);
  EXPECT_TRUE(closed_.contains(4));
  say(1, Stop{});
  EXPECT_TRUE(closed_.contains(1));
  EXPECT_EQ(state_->generation(), Generation{0});
}

TEST_F(CoordinatorStateTest, AWorkerMayJoinAgainBeforeTheGeneration) {
  join(1, 0);
  perform(state_->on_closed(1, {}, now_));
  join(2, 0);
  join(3, 1);
  EXPECT_EQ(state_->generation(), Generation{1});
  EXPECT_FALSE(sent_.contains(1));
}

TEST_F(CoordinatorStateTest, AGetWaitsForItsKey) {
  join(1, 0);
  join(2, 1);
  say(1, StoreRequest{11, StoreAction::kGet, "k", {}, {}, 0});
  EXPECT_EQ(sent_[1].size(), 1u);
  say(2, StoreRequest{21, StoreAction::kSet, "k", {std::byte{5}}, {}, 0});
  ASSERT_EQ(sent_[1].size(), 2u);
  const auto reply = std::get<StoreReply>(sent_[1][1]);
  EXPECT_EQ(reply.id, 11u);
  EXPECT_EQ(reply.value, Bytes{std::byte{5}});
  EXPECT_EQ(std::get<StoreReply>(sent_[2][1]).id, 21u);
}

TEST_F(CoordinatorStateTest, BroadcastsReachWhoIsConnected) {
  join(1, 0);
  join(2, 1);
  perform(state_->on_closed(2, {}, now_));
  sent_.clear();
  perform(state_->broadcast(Dump{}));
  EXPECT_EQ(sent_[1].size(), 1u);
  EXPECT_FALSE(sent_.contains(2));
}

TEST_F(ElasticCoordinatorTest, TheOthersGoOnWithoutTheDead) {
  close(1);
  EXPECT_EQ(told(), (Told{"lost 0", "generation 2"}));
  EXPECT_EQ(last_welcome(2).rank, Rank{0});
  EXPECT_EQ(last_welcome(3).rank, Rank{1});
  EXPECT_FALSE(last_welcome(2).planned);
  close(2);
  EXPECT_EQ(last_welcome(3).members.size(), 1U);
  close(3);
  EXPECT_EQ(state_->generation(), Generation{3});
}

TEST_F(ElasticCoordinatorTest, ASilentOneThatWakesUpIsToldThatItIsOut) {
  pass(seconds(4));
  say(1, Heartbeat{});
  say(2, Heartbeat{});
  pass(seconds(6));
  EXPECT_EQ(told(), (Told{"silent 2", "generation 2"}));
  EXPECT_EQ(closed_.at(3).code, ErrorCode::kStale);
  EXPECT_FALSE(closed_.contains(1));
}

// Nobody was left to go on without it, and yet it was given up.
TEST_F(ElasticCoordinatorTest, WhoWasGivenUpAndWakesUpIsNoMemberAgain) {
  close(1);
  close(2);
  pass(seconds(11));
  say(3, Heartbeat{});
  join(4, 0);
  EXPECT_EQ(state_->generation(), Generation{3}) << "nobody has the state";
  EXPECT_NE(state_->reason().find("worker 2 (h, pid 1) was given up"), std::string::npos)
      << state_->reason();
}

// Else it trains on with another one, in a generation that is over.
TEST_F(CoordinatorStateTest, WhoWasSilentIsToldThatItIsOutAlsoWhereTooFewAreLeft) {
  join(1, 0);
  join(2, 1);
  pass(seconds(9));
  say(1, Heartbeat{});
  pass(seconds(1));
  EXPECT_EQ(told(), (Told{"generation 1", "silent 1"}));
  EXPECT_EQ(closed_.at(2).code, ErrorCode::kStale);
  say(2, Leave{});
  say(2, Heartbeat{});
  perform(state_->on_closed(2, {}, now_));
  EXPECT_EQ(told(), Told{}) << "whatever it still says";
  join(3, 1);
  EXPECT_FALSE(closed_.contains(3)) << "its number is free";
  EXPECT_EQ(told(), Told{"generation 2"});
}

TEST_F(ElasticCoordinatorTest, ANewWorkerJoinsAsPlanned) {
  close(2);
  told();
  join(4, 1);
  EXPECT_EQ(told(), Told{"generation 3"});
  for (const PeerId peer : {1, 3, 4}) EXPECT_TRUE(last_welcome(peer).planned);
  EXPECT_EQ(last_welcome(4).rank, Rank{2}) << "newcomers follow the survivors";
}

TEST_F(ElasticCoordinatorTest, WhoComesWhenAllWereToldToStopIsToldAsWell) {
  close(2);
  perform(state_->broadcast(Stop{StopReason::kCheckpointAndExit}));
  join(4, 1);
  EXPECT_EQ(std::get<Stop>(sent_[4].back()).reason, StopReason::kCheckpointAndExit);
}

TEST_F(ElasticCoordinatorTest, WhoIsToldToGoIsDismissedWhileEnoughStay) {
  say(2, Drain{});
  EXPECT_EQ(told(), (Told{"generation 2", "drains 1"}));
  EXPECT_EQ(std::get<Dismiss>(sent_[2].back()).generation, Generation{2});
  EXPECT_TRUE(last_welcome(1).planned);
  say(2, Leave{});
  close(2);
  EXPECT_EQ(told(), Told{"left 1"});
  say(1, Drain{});
  say(3, Drain{});
  EXPECT_EQ(told(), (Told{"generation 3", "drains 0", "stays 2"}));
  EXPECT_EQ(state_->generation(), Generation{3});
}

TEST_F(ElasticCoordinatorTest, OneThatIsLetGoIsAskedToDrain) {
  perform(state_->let_go(1));
  EXPECT_TRUE(std::holds_alternative<Drain>(sent_[2].back()));
  EXPECT_TRUE(told().empty()) << "it goes once it says so itself";
  say(2, Drain{});
  EXPECT_EQ(told(), (Told{"generation 2", "drains 1"}));
  say(2, Leave{});
  sent_.clear();
  perform(state_->let_go(1));
  perform(state_->let_go(7));
  EXPECT_TRUE(sent_.empty());
}

// A slow worker is no reason to end a job that needs it.
TEST_F(CoordinatorStateTest, WhoWishesToGoStaysWhereTooFewWouldBeLeft) {
  events_.on_drain = [this](std::int32_t worker, Departure) { note("drains", worker); };
  events_.on_stay = [this](std::int32_t worker) { note("is kept", worker); };
  join(1, 0);
  join(2, 1);
  sent_.clear();
  told();
  say(2, Drain{.can_stay = true});
  EXPECT_EQ(told(), Told{"is kept 1"});
  ASSERT_EQ(sent_.size(), 1U) << "nobody else is told anything";
  EXPECT_TRUE(std::holds_alternative<Stay>(sent_[2].back()));
  EXPECT_EQ(state_->reason(), "all 2 members are well");
  say(2, Drain{});
  EXPECT_EQ(told(), Told{"drains 1"}) << "it may still be told to go";
}

// Whoever alone has the state waits until another one has it.
TEST_F(ElasticCoordinatorTest, TheLastWhoHasTheStateHandsItOver) {
  close(2);
  close(3);
  join(4, 1);
  pass(std::chrono::seconds(1));
  ASSERT_EQ(told().back(), "generation 4");
  say(1, Drain{});
  EXPECT_EQ(told(), Told{"hands over 0"});
  EXPECT_EQ(state_->reason(), "all 2 members are well");
  say(4, Whole{});
  EXPECT_EQ(told(), Told{"generation 5"});
  EXPECT_EQ(last_welcome(4).members.size(), 1U);
  EXPECT_TRUE(last_welcome(4).planned);
  EXPECT_TRUE(std::holds_alternative<Dismiss>(sent_[1].back()));
}

TEST_F(ElasticCoordinatorTest, WhoWishesToGoDoesWhereEnoughAreLeft) {
  say(2, Drain{.can_stay = true});
  EXPECT_EQ(told(), (Told{"generation 2", "drains 1"}));
  EXPECT_TRUE(std::holds_alternative<Dismiss>(sent_[2].back()));
  say(1, Drain{.can_stay = true});
  say(3, Drain{.can_stay = true});
  EXPECT_EQ(told(), (Told{"generation 3", "drains 0", "is kept 2"}));
}

TEST_F(ElasticCoordinatorTest, ADeathMakesAPlannedChangeAnUnplannedOne) {
  say(2, Drain{});
  close(3);
  EXPECT_FALSE(last_welcome(1).planned);
  EXPECT_EQ(last_welcome(1).members.size(), 1U);
}

// Nobody is left who would hand the state over to it.
TEST_F(ElasticCoordinatorTest, AtTheEndAMemberWithoutTheStateIsSentAwayAfterAnotherChangeAsWell) {
  close(2);
  join(4, 1);
  close(3);
  ASSERT_EQ(last_welcome(4).members.size(), 2U);
  say(1, Leave{});
  EXPECT_TRUE(std::holds_alternative<Dismiss>(sent_[4].back()));
}

TEST_F(ElasticCoordinatorTest, AfterTheEndNobodyIsLetIn) {
  close(2);
  join(4, 1);
  say(1, Leave{});
  EXPECT_TRUE(std::holds_alternative<Dismiss>(sent_[4].back())) << "it was on its way in";
  EXPECT_TRUE(std::holds_alternative<Welcome>(sent_[3].back())) << "it has finished by itself";
  close(4);
  join(5, 1);
  EXPECT_TRUE(std::holds_alternative<Dismiss>(sent_[5].back()));
  EXPECT_EQ(state_->generation(), Generation{3});
}

TEST_F(ElasticCoordinatorTest, WhoAccusesARankAccusesTheWorkerThatItWas) {
  events_.on_failure = [this](std::int32_t, const Failure& failure) {
    note("accused", to_int(failure.error.peer));
  };
  close(1);
  told();
  const auto fails_in = [this](Generation generation) {
    say(3, Failure{fail(ErrorCode::kPeerLost, "rank 1 is gone", Rank{1}), {}, {}, generation});
  };
  fails_in(Generation{2});
  EXPECT_EQ(told(), Told{"accused 2"});
  fails_in(Generation{1});  // of which it tells late
  EXPECT_EQ(told(), Told{"accused 1"});
  fails_in(Generation{3});
  EXPECT_EQ(told(), Told{"accused -1"}) << "nobody knows who that is";
}

}  // namespace
}  // namespace muster::cluster
