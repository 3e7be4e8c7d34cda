// Standbys of a job in which each worker keeps its rank, on the coordinator's state machine.
#include "muster/cluster/testing/coordinator_world.h"

namespace muster::cluster {
namespace {

CoordinatorOptions with_a_standby() {
  CoordinatorOptions options;
  options.policy.min_workers = 2;
  options.policy.start_workers = options.policy.max_workers = options.own = 3;
  options.policy.keeps_ranks = true;
  options.policy.standbys = 1;
  return options;
}

// Of three workers two have a rank each, and one waits for the rank of one that is lost.
class StandbyCoordinatorTest : public ElasticCoordinatorTest {
 protected:
  StandbyCoordinatorTest() {
    state_ = std::make_unique<CoordinatorState>(with_a_standby(), now_, create_null_logger());
    for (std::int32_t worker = 0; worker < 3; ++worker)
      join(static_cast<PeerId>(worker + 1), worker);
  }
};

TEST_F(StandbyCoordinatorTest, AStandbyHearsNothingUntilItHasARank) {
  EXPECT_EQ(told(), Told{"generation 1"});
  EXPECT_TRUE(sent_[3].empty());
  close(2);
  EXPECT_EQ(told(), (Told{"lost 1", "generation 2"}));
  const Welcome welcome = last_welcome(3);
  EXPECT_EQ(welcome.rank, Rank{1});
  EXPECT_FALSE(welcome.planned);
  ASSERT_EQ(welcome.members.size(), 2U);
  EXPECT_TRUE(welcome.members[0].info.has_state);
  EXPECT_FALSE(welcome.members[1].info.has_state) << "what it began with is not the others' state";
}

TEST_F(StandbyCoordinatorTest, WhoComesForOneThatWasLostIsTheNextStandby) {
  close(2);
  told();
  join(4, 1);
  EXPECT_EQ(told(), Told{});
  EXPECT_TRUE(sent_[4].empty());
  close(1);
  EXPECT_EQ(told(), (Told{"lost 0", "generation 3"}));
  EXPECT_EQ(last_welcome(4).rank, Rank{0});
  EXPECT_EQ(last_welcome(3).rank, Rank{1});
}

TEST_F(StandbyCoordinatorTest, AStandbyThatIsLostCostsNobodyAGeneration) {
  told();
  close(3);
  EXPECT_EQ(told(), Told{"lost 2"});
  EXPECT_EQ(state_->generation(), Generation{1});
}

TEST_F(CoordinatorStateTest, OneThatGoesBeforeTheBeginningIsNotWaitedForWhereOneStandsBy) {
  state_ = std::make_unique<CoordinatorState>(with_a_standby(), now_, create_null_logger());
  join(1, 0);
  say(1, Drain{});
  EXPECT_TRUE(std::holds_alternative<Dismiss>(sent_[1].back()));
  join(2, 1);
  EXPECT_EQ(told(), Told{});
  join(3, 2);
  EXPECT_EQ(told(), Told{"generation 1"});
  EXPECT_EQ(std::get<Welcome>(sent_[3].back()).rank, Rank{1});
}

TEST_F(StandbyCoordinatorTest, AStandbyGoesWhenItIsToldToOrTheTrainingIsOver) {
  say(3, Drain{});
  EXPECT_TRUE(std::holds_alternative<Dismiss>(sent_[3].back()));
  perform(state_->on_closed(3, {}, now_));
  join(4, 2);
  say(1, Leave{});
  ASSERT_FALSE(sent_[4].empty());
  EXPECT_TRUE(std::holds_alternative<Dismiss>(sent_[4].back()));
}

}  // namespace
}  // namespace muster::cluster
