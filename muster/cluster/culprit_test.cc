#include "muster/cluster/culprit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

namespace muster::cluster {
namespace {

TimePoint at(int ms) { return TimePoint(std::chrono::milliseconds(ms)); }

std::vector<Evidence> healthy(int size) {
  std::vector<Evidence> workers;
  for (int i = 0; i < size; ++i) {
    workers.emplace_back();
    workers.back().rank = Rank{i};
    workers.back().joined = true;
  }
  return workers;
}
void died(Evidence& worker, int signal, int when) {
  worker.end = ProcessEnd{.exit_status = {}, .signal = signal};
  worker.end_at = at(when);
}
void exited(Evidence& worker, int status, int when) {
  worker.end = ProcessEnd{.exit_status = status, .signal = {}};
  worker.end_at = at(when);
}
void accused(Evidence& worker, int peer, int when) {
  worker.reported = Error{ErrorCode::kPeerLost, "lost", Rank{peer}};
  worker.reported_at = at(when);
}
void lost(Evidence& worker, ErrorCode code, int when) {
  worker.lost = Error{code, "lost", worker.rank};
  worker.lost_at = at(when);
}

TEST(Culprit, IsNobodyWhoIsKilledAfterItHasFinished) {
  auto workers = healthy(2);
  workers[0].left = workers[1].left = true;
  died(workers[1], SIGKILL, 10);
  EXPECT_FALSE(judge(workers));
  died(workers[1], SIGSEGV, 10);
  EXPECT_TRUE(judge(workers)) << "a crash on the way out is a fault";
}

// Within a few milliseconds, before anybody has judged it.
TEST(Culprit, WhoIsLeftOutAndEndsForItIsStillTheOneThatTheOthersCannotReach) {
  auto workers = healthy(3);
  lost(workers[1], ErrorCode::kUnavailable, 10);
  exited(workers[1], 1, 12);
  const auto verdict = judge(workers);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->culprit, Rank{1});
  EXPECT_EQ(verdict->reason, "lives, but does not answer the others");
  EXPECT_FALSE(verdict->certain);
  EXPECT_TRUE(was_excluded(workers[1]));
}

TEST(Culprit, AConnectionThatBreaksWithTheEndExcludesNobody) {
  auto workers = healthy(3);
  lost(workers[1], ErrorCode::kPeerLost, 10);
  exited(workers[1], 7, 12);
  EXPECT_EQ(judge(workers)->reason, "exit status 7");
  EXPECT_FALSE(was_excluded(workers[1]));
}

TEST(Culprit, IsNobodyWhileAllIsWell) {
  auto workers = healthy(3);
  EXPECT_FALSE(judge(workers));
  for (auto& worker : workers) {
    worker.left = true;
    exited(worker, 0, 5);
  }
  EXPECT_FALSE(judge(workers));
}

TEST(Culprit, IsWhoDiedAlsoWhenTheOthersReportFirst) {
  auto workers = healthy(4);
  for (const int other : {0, 1, 3}) {
    accused(workers[static_cast<std::size_t>(other)], 2, 10);
    exited(workers[static_cast<std::size_t>(other)], 1, 12);
  }
  EXPECT_EQ(judge(workers)->culprit, Rank{2});  // blamed by all
  EXPECT_FALSE(judge(workers)->certain);
  died(workers[2], SIGKILL, 20);
  const auto verdict = judge(workers);
  EXPECT_EQ(verdict->culprit, Rank{2});
  EXPECT_EQ(verdict->reason, "killed by SIGKILL");
  EXPECT_TRUE(verdict->certain);
}

TEST(Culprit, IsTheFirstOfTwoDead) {
  auto workers = healthy(3);
  died(workers[0], SIGSEGV, 30);
  died(workers[2], SIGKILL, 10);
  EXPECT_EQ(judge(workers)->culprit, Rank{2});
}

TEST(Culprit, IsAtTheEndOfAChainOfBlame) {
  auto workers = healthy(4);
  accused(workers[0], 1, 10);
  accused(workers[1], 2, 20);
  accused(workers[3], 1, 30);
  EXPECT_EQ(judge(workers)->culprit, Rank{2});
}

TEST(Culprit, IsSomebodyWhenTwoBlameEachOther) {
  auto workers = healthy(2);
  accused(workers[0], 1, 10);
  accused(workers[1], 0, 20);
  EXPECT_TRUE(judge(workers));
}

TEST(Culprit, IsTheSilentOneRatherThanTheAccuser) {
  auto workers = healthy(3);
  lost(workers[1], ErrorCode::kTimeout, 50);
  accused(workers[0], 1, 20);
  const auto verdict = judge(workers);
  EXPECT_EQ(verdict->culprit, Rank{1});
  EXPECT_EQ(verdict->reason, "was silent for too long");
}

TEST(Culprit, IsWhoReportsAFaultOfItsOwn) {
  auto workers = healthy(2);
  workers[1].reported = Error{ErrorCode::kNumeric, "NaN", kNoRank};
  workers[1].reported_at = at(5);
  const auto verdict = judge(workers);
  EXPECT_EQ(verdict->culprit, Rank{1});
  EXPECT_TRUE(verdict->certain);
}

// Numbers that are no numbers end all workers; its own word may be the last to come, or never.
TEST(Culprit, IsWhoseNumbersOthersFindWrong) {
  auto workers = healthy(3);
  accused(workers[0], 2, 10);
  workers[0].reported->code = ErrorCode::kNumeric;
  exited(workers[2], 4, 12);
  auto verdict = judge(workers);
  EXPECT_EQ(verdict->culprit, Rank{2});
  EXPECT_EQ(verdict->reason, kReportedAnError);
  EXPECT_TRUE(verdict->certain);
  EXPECT_EQ(verdict->account, workers[0].reported);
  accused(workers[2], 0, 8);  // it only lost those who had ended for it
  verdict = judge(workers);
  EXPECT_EQ(verdict->culprit, Rank{2});
  EXPECT_EQ(verdict->account, workers[0].reported);
}

TEST(Culprit, IsNotWhoComesInThePlaceOfTheAccused) {
  for (const ErrorCode code : {ErrorCode::kPeerLost, ErrorCode::kNumeric}) {
    auto workers = healthy(3);
    accused(workers[0], 1, 10);
    workers[0].reported->code = code;
    workers[0].accused = workers[1].process = 7;
    EXPECT_EQ(judge(workers)->culprit, Rank{1});
    workers[1].process = 8;
    EXPECT_EQ(judge(workers)->culprit, Rank{0});
  }
}

TEST(Culprit, IsAloneWhereItGaveUpForOthers) {
  Evidence worker = healthy(1)[0];
  accused(worker, 1, 10);
  EXPECT_TRUE(worker.is_alone());
  worker.reported->code = ErrorCode::kNumeric;
  EXPECT_FALSE(worker.is_alone());
  worker.reported = Error{ErrorCode::kCancelled, "the job ends", kNoRank};
  EXPECT_TRUE(worker.is_alone());
  worker.reported = Error{ErrorCode::kInvalid, "a wrong label", kNoRank};
  EXPECT_FALSE(worker.is_alone());
}

TEST(Culprit, IsNotWhoExitsAsASignalAsked) {
  auto workers = healthy(2);
  exited(workers[0], 143, 5);
  exited(workers[1], 143, 5);
  EXPECT_TRUE(judge(workers));
  EXPECT_FALSE(judge(workers, 143));
}

TEST(Culprit, MayEndWithoutJoining) {
  auto workers = healthy(2);
  workers[0].joined = false;
  exited(workers[0], 0, 5);
  EXPECT_FALSE(judge(workers));  // a program that is no member ends when it likes
  lost(workers[0], ErrorCode::kTimeout, 50);
  EXPECT_EQ(judge(workers)->reason, "did not join in time");
}

TEST(Culprit, IsNoLatecomerWhereItStoodBy) {
  auto workers = healthy(3);
  workers[2].joined = false;
  workers[2].stood_by = true;
  lost(workers[2], ErrorCode::kTimeout, 100);
  EXPECT_EQ(judge(workers)->culprit, Rank{2});
  EXPECT_EQ(judge(workers)->reason, "stopped answering as a standby");
}

TEST(Culprit, DoesNotDependOnTheOrderOfWorkers) {
  auto workers = healthy(4);
  accused(workers[0], 3, 10);
  lost(workers[1], ErrorCode::kPeerLost, 5);
  died(workers[3], SIGKILL, 20);
  const auto expected = judge(workers)->culprit;
  std::reverse(workers.begin(), workers.end());
  EXPECT_EQ(judge(workers)->culprit, expected);
}

TEST(WhyItEnds, TellsWhatTheOthersLack) {
  auto workers = healthy(1);
  Evidence& culprit = workers[0];
  died(culprit, SIGKILL, 1);
  EXPECT_EQ(why_it_ends(culprit, true, 1, {3}),
            "the job ends: 1 worker is left, 3 are needed (workers.min_workers), and no new one "
            "comes (workers.max_restarts)");
  EXPECT_EQ(why_it_ends(culprit, true, 0, {1}),
            "the job ends: 0 workers are left, 1 is needed (workers.min_workers), and no new one "
            "comes (workers.max_restarts)");
  EXPECT_NE(why_it_ends(culprit, true, 1, {2, "workers.majority"})
                .find("1 worker is left, 2 are needed (workers.majority)"),
            std::string::npos);
  EXPECT_EQ(why_it_ends(culprit, false, 1, {3}), "the job ends: it had not begun");
  culprit.joined = false;
  EXPECT_NE(why_it_ends(culprit, false, 1, {3}, true).find("as it started"), std::string::npos);
  culprit.joined = true;
  exited(culprit, 7, 1);
  EXPECT_NE(why_it_ends(culprit, true, 2, {1}, true).find("in the same way"), std::string::npos);
  culprit.reported = Error{ErrorCode::kNumeric, "NaN"};
  EXPECT_NE(why_it_ends(culprit, true, 2, {1}).find("tells of itself"), std::string::npos);
  culprit.reported = Error{ErrorCode::kUnavailable, "not enough memory"};
  culprit.concerns = Concerns::kItsHost;
  EXPECT_NE(why_it_ends(culprit, true, 2, {3}).find("3 are needed"), std::string::npos);
  EXPECT_NE(why_it_ends(culprit, true, 0, {1}).find("would meet the same"), std::string::npos);
}

}  // namespace
}  // namespace muster::cluster
