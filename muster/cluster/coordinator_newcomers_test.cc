// Whom the coordinator's state machine lets in, and when.
#include "muster/cluster/testing/coordinator_world.h"

namespace muster::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kVersion = "muster 0.1.0 (commit 6205a21)";

// Three of its own, and two places for others.
class OpenCoordinatorTest : public ElasticCoordinatorTest {
 protected:
  OpenCoordinatorTest() {
    CoordinatorOptions options;
    options.policy.start_workers = options.own = 3;
    options.policy.max_workers = 5;
    options.enlistment = {0, 0, "/runs/a", "name: a"};
    options.version = kVersion;
    state_ = std::make_unique<CoordinatorState>(options, now_, create_null_logger());
    for (std::int32_t worker = 0; worker < 3; ++worker)
      join(static_cast<PeerId>(worker + 1), worker);
    told();
  }
  std::int32_t enlist(PeerId peer) {
    say(peer, Enlist{"elsewhere", 7, -1, kVersion});
    if (closed_.contains(peer)) return -1;
    return std::get<Enlisted>(sent_[peer].back()).worker;
  }
};

TEST_F(OpenCoordinatorTest, HostsThatOfferAWorkerGetANumberAndTheJob) {
  EXPECT_EQ(enlist(11), 3);
  EXPECT_EQ(std::get<Enlisted>(sent_[11].back()).job, "name: a");
  EXPECT_EQ(enlist(12), 4);
  EXPECT_EQ(enlist(13), -1);
  EXPECT_NE(closed_.at(13).message.find("all 5 (workers.max_workers) are taken"),
            std::string::npos);
}

TEST_F(OpenCoordinatorTest, AHostWithAnotherVersionIsToldBoth) {
  for (const std::string version : {"muster 0.0.1 with libtorch 1.0.0", ""}) {
    closed_.clear();
    say(11, Enlist{"elsewhere", 7, -1, version});
    ASSERT_TRUE(closed_.contains(11)) << version;
    EXPECT_EQ(closed_.at(11).code, ErrorCode::kInvalid);
    const std::string& told = closed_.at(11).message;
    EXPECT_NE(told.find(version.empty() ? "another muster" : version), std::string::npos) << told;
    EXPECT_NE(told.find(std::string(kVersion) + " here"), std::string::npos) << told;
  }
}

TEST_F(OpenCoordinatorTest, AWorkerOfAnotherVersionIsRefusedAndBothAreNamed) {
  std::string others;
  events_.on_other_version = [&](const Error& why) { others = why.message; };
  say(21, Join{{3, "elsewhere", "b", 9, {}}, kVersion});
  ASSERT_TRUE(closed_.contains(21));
  EXPECT_EQ(closed_.at(21).code, ErrorCode::kInvalid);
  EXPECT_EQ(closed_.at(21).message, others);
  EXPECT_NE(others.find("worker 3 on elsewhere (pid 9) is of muster 0.1.0 (commit 6205a21), worker "
                        "0 on h (pid 1) is of a muster that does not say which"),
            std::string::npos)
      << others;
  EXPECT_EQ(told(), Told{});
}

TEST_F(OpenCoordinatorTest, WhoeverIsGoneIsComparedWithNobody) {
  for (const PeerId peer : {1, 2, 3}) close(peer);
  say(21, Join{{3, "elsewhere", "b", 9, {}}, kVersion});
  EXPECT_FALSE(closed_.contains(21));
  say(22, Join{{4, "elsewhere", "b", 10, {}}, "muster 0.0.9"});
  EXPECT_TRUE(closed_.contains(22));
}

TEST_F(OpenCoordinatorTest, ANumberIsFreeAgainWhenItsHostAndWorkerAreGone) {
  enlist(11);
  join(21, 3);
  close(11);
  EXPECT_EQ(enlist(12), 4) << "the worker is still there";
  close(21);
  EXPECT_EQ(enlist(13), 3);
  close(12);
  EXPECT_EQ(enlist(14), 4);
}

TEST_F(OpenCoordinatorTest, OneThatTheLauncherStartsElsewhereHasItsNumberAlready) {
  say(11, Enlist{"elsewhere", 7, 1, kVersion});
  EXPECT_EQ(std::get<Enlisted>(sent_[11].back()).worker, 1);
  EXPECT_EQ(enlist(12), 3) << "that took nobody's place";
  say(13, Enlist{"elsewhere", 7, 3, kVersion});
  EXPECT_NE(closed_.at(13).message.find("the launcher starts 0 to 2"), std::string::npos);
  // The next process of that number: what the one before it has yet to say concerns nobody.
  say(14, Enlist{"elsewhere", 8, 1, kVersion});
  say(11, Ended{});
  EXPECT_NE(closed_.at(11).message.find("without a place"), std::string::npos);
}

TEST_F(OpenCoordinatorTest, NewcomersComeTogether) {
  join(21, 3);
  EXPECT_EQ(told(), Told{});
  join(22, 4);
  EXPECT_EQ(told(), Told{"generation 2"}) << "there is nobody to wait for any more";
  EXPECT_TRUE(last_welcome(21).planned);
}

TEST_F(OpenCoordinatorTest, OneWaitsForOthersOnlyALittle) {
  join(21, 3);
  now_ = state_->next_clock(now_);
  perform(state_->on_clock(now_));
  EXPECT_EQ(told(), Told{"generation 2"});
  EXPECT_EQ(last_welcome(21).members.size(), 4U);
}

TEST_F(OpenCoordinatorTest, TheHostOfAWorkerTellsHowItEnded) {
  events_.on_ended = [this](std::int32_t worker, const Ended& ended) {
    note("ended", worker);
    note("signal", ended.end.signal.value_or(0));
  };
  enlist(11);
  Ended killed;
  killed.end.signal = 9;
  say(11, killed);
  EXPECT_EQ(told(), (Told{"ended 3", "signal 9"}));
  say(12, Ended{});
  EXPECT_TRUE(closed_.contains(12)) << "it has no place";
  EXPECT_EQ(told(), Told{});
}

// The launcher itself judges its own host.
TEST_F(OpenCoordinatorTest, AHostWhoseWorkerHeldWrongBitsMayOfferNoOther) {
  const Quarantine wrong_bits{{ErrorCode::kCorrupt, "other weights", Rank{0}}};
  say(1, wrong_bits);
  EXPECT_EQ(enlist(11), 3);
  say(21, Join{{.worker = 3, .host = "elsewhere", .boot_id = "b", .pid = 1, .door = {}}});
  say(21, wrong_bits);
  EXPECT_EQ(enlist(12), -1);
  EXPECT_NE(closed_.at(12).message.find("held other bits"), std::string::npos);
  say(13, Enlist{"another", 7, -1, kVersion});
  EXPECT_FALSE(closed_.contains(13));
}

TEST_F(OpenCoordinatorTest, AnotherMachineOfTheSameNameIsNotTheOneWithWrongBits) {
  enlist(11);
  say(21, Join{{.worker = 3, .host = "elsewhere", .boot_id = "b", .pid = 1, .door = {}}});
  say(21, Quarantine{{ErrorCode::kCorrupt, "other weights", Rank{0}}});
  say(12, Enlist{"elsewhere", 7, -1, kVersion, "another"});
  EXPECT_FALSE(closed_.contains(12));
  for (const std::string boot_id : {"b", ""}) {
    closed_.clear();
    say(13, Enlist{"elsewhere", 7, -1, kVersion, boot_id});
    EXPECT_TRUE(closed_.contains(13)) << boot_id;
  }
}

TEST_F(OpenCoordinatorTest, AfterTheEndNobodyIsEnlisted) {
  say(1, Leave{});
  EXPECT_EQ(enlist(11), -1);
  EXPECT_NE(closed_.at(11).message.find("too late"), std::string::npos);
}

// Three on a host, and places for those of others.
class NewcomerTest : public OpenCoordinatorTest {
 protected:
  NewcomerTest() {
    events_.on_unreached = [this](const WorkerInfo& newcomer, const WorkerInfo& other,
                                  const std::string& why) {
      told_.push_back(fmt::format("{} and {}: {}", newcomer.worker, other.worker, why));
    };
    CoordinatorOptions options;
    options.policy.start_workers = options.own = 3;
    options.policy.max_workers = 5;
    state_ = std::make_unique<CoordinatorState>(options, now_, create_null_logger());
    for (std::int32_t worker = 0; worker < 3; ++worker)
      arrive(static_cast<PeerId>(worker + 1), worker, "a");
    told();
  }
  void arrive(PeerId peer, std::int32_t worker, const std::string& boot_id,
              const std::string& address = "h") {
    say(peer, Join{{worker, "h", boot_id, 1, fmt::format("{}:{}", address, worker)}});
  }
  std::vector<std::int32_t> asked(PeerId peer) {
    std::vector<std::int32_t> workers;
    for (const WorkerInfo& info : std::get<Reach>(sent_[peer].back()).workers)
      workers.push_back(info.worker);
    return workers;
  }
  void settle() {
    now_ += milliseconds(200);
    perform(state_->on_clock(now_));
  }
};

using Workers = std::vector<std::int32_t>;

TEST_F(NewcomerTest, IsLetInOnceItReachesAllOthers) {
  arrive(11, 3, "b");
  settle();
  EXPECT_EQ(told(), Told{});
  EXPECT_EQ(asked(11), (Workers{0, 1, 2}));
  say(11, Reached{{0}});
  say(11, Unreached{1, "no way"});
  say(11, Unreached{1, "still none"});
  say(11, Reached{{2}});
  settle();
  EXPECT_EQ(told(), Told{"3 and 1: no way"});
  EXPECT_EQ(sent_[11].size(), 1U) << "it tries again by itself";
  say(11, Reached{{1}});
  settle();
  EXPECT_EQ(told(), Told{"generation 2"});
  EXPECT_TRUE(last_welcome(11).planned);
}

TEST_F(NewcomerTest, OfTheSameHostNeedsNoProof) {
  arrive(11, 3, "a");
  settle();
  EXPECT_EQ(told(), Told{"generation 2"});
}

TEST_F(NewcomerTest, OfAnotherContainerOfTheHostDoes) {
  arrive(11, 3, "a", "other");
  settle();
  EXPECT_EQ(told(), Told{});
  EXPECT_EQ(asked(11), (Workers{0, 1, 2}));
}

TEST_F(NewcomerTest, WhoIsToldToGoBeforeItIsLetInIsDismissedAtOnce) {
  arrive(11, 3, "b");
  say(11, Reached{{0, 1}});
  say(11, Drain{});
  EXPECT_TRUE(std::holds_alternative<Dismiss>(sent_[11].back()));
  say(11, Reached{{2}});
  settle();
  EXPECT_EQ(told(), Told{"drains 3"}) << "no generation for its sake, and nobody else stops";
}

TEST_F(NewcomerTest, NeedsNotReachWhoIsGone) {
  arrive(11, 3, "b");
  say(11, Reached{{0, 2}});
  say(11, Unreached{1, "no way"});
  told();
  close(2);
  EXPECT_EQ(told(), (Told{"lost 1", "generation 2"}));
  EXPECT_EQ(last_welcome(11).members.size(), 3U);
}

TEST_F(NewcomerTest, AlsoReachesThoseWhoComeWithIt) {
  arrive(11, 3, "b");
  arrive(12, 4, "c");
  say(11, Reached{{0, 1, 2}});
  EXPECT_EQ(asked(12), (Workers{0, 1, 2, 3}));
  say(12, Reached{{0, 1, 2}});
  settle();
  EXPECT_EQ(told(), Told{"generation 2"});
  EXPECT_EQ(last_welcome(11).members.size(), 4U) << "without the one that cannot reach it";
  say(12, Reached{{3}});
  EXPECT_EQ(told(), Told{"generation 3"});
}

TEST_F(NewcomerTest, AnAnswerThatNobodyAskedForCountsForNothing) {
  arrive(11, 3, "b");
  say(11, Reached{{0, 1, 2, 4, 77, -1}});
  say(11, Unreached{77, "no way"});
  arrive(12, 4, "c");
  say(12, Reached{{0, 1, 2}});
  settle();
  EXPECT_EQ(told(), Told{"generation 2"});
  EXPECT_EQ(last_welcome(11).members.size(), 4U);
}

}  // namespace
}  // namespace muster::cluster
