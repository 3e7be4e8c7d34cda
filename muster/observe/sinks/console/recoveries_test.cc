#include "muster/observe/sinks/console/recoveries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/testing/fake_clock.h"

namespace muster::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Turn = RecoveryPart::Turn;

class KeptNotices final : public Sink {
 public:
  void take(const Record& record) noexcept override {
    if (const auto* notice = std::get_if<Notice>(&record)) texts_.push_back(notice->text);
  }
  std::vector<std::string> take_texts() { return std::exchange(texts_, {}); }

 private:
  std::vector<std::string> texts_;
};

class RecoveriesTest : public ::testing::Test {
 protected:
  void tell(Turn turn, std::string text, std::vector<std::int32_t> workers = {},
            std::string brief = {}) {
    const bool lost = turn == Turn::kLost;
    recoveries_.take(Notice{lost ? Severity::kWarning : Severity::kNote, std::move(text),
                            RecoveryPart{turn, std::move(workers), std::move(brief)}});
  }
  void lose(std::int32_t worker) {
    const std::string who = "worker " + std::to_string(worker);
    tell(Turn::kLost, who + " killed; its log: words", {worker}, who + " killed");
  }
  void start(std::int32_t worker) {
    const std::string who = "worker " + std::to_string(worker);
    tell(Turn::kStarted, who + " is started anew and joins", {worker}, who + " is started anew");
  }
  std::vector<std::string> told() { return behind_->take_texts(); }

  testing::FakeClock clock_;
  std::shared_ptr<KeptNotices> behind_ = std::make_shared<KeptNotices>();
  Recoveries recoveries_{behind_, clock_};
};

TEST_F(RecoveriesTest, ARecoveryIsOneLineOnceItIsOver) {
  lose(2);
  start(2);
  recoveries_.take(Notice{Severity::kNote, "of something else"});
  EXPECT_THAT(told(), ElementsAre("of something else"));
  tell(Turn::kStands, "generation 2 stands");
  EXPECT_THAT(told(),
              ElementsAre("worker 2 killed; generation 2 stands; worker 2 is started anew"));
  tell(Turn::kStands, "generation 3 stands", {2});
  tell(Turn::kEntered, "worker 2 got the state", {2});
  EXPECT_THAT(told(), IsEmpty());
  // Whoever comes later, under that number or not, comes for another reason.
  tell(Turn::kStands, "generation 4 stands", {2});
  tell(Turn::kEntered, "worker 2 got the state", {2});
  tell(Turn::kStands, "generation 5 stands");
  EXPECT_THAT(told(),
              ElementsAre("generation 4 stands", "worker 2 got the state", "generation 5 stands"));
}

TEST_F(RecoveriesTest, NobodyNeedsToComeForTheLostOne) {
  lose(1);
  tell(Turn::kStands, "generation 2 stands");
  EXPECT_THAT(told(), ElementsAre("worker 1 killed; generation 2 stands"));
}

TEST_F(RecoveriesTest, EachOfSeveralLossesIsALine) {
  lose(1);
  start(1);
  lose(2);
  EXPECT_THAT(told(), ElementsAre("worker 1 killed; worker 1 is started anew"));
  start(2);
  tell(Turn::kStands, "generation 3 stands");
  EXPECT_THAT(told(),
              ElementsAre("worker 2 killed; generation 3 stands; worker 2 is started anew"));
  tell(Turn::kEntered, "workers 1, 2 got the state", {1, 2});
  EXPECT_THAT(told(), IsEmpty());
}

TEST_F(RecoveriesTest, ANewcomerThatSomebodyElseComesWithIsTold) {
  lose(1);
  start(1);
  tell(Turn::kStands, "generation 2 stands");
  EXPECT_EQ(told().size(), 1U);
  tell(Turn::kStands, "generation 3 stands", {1, 7});
  tell(Turn::kEntered, "workers 1, 7 got the state", {1, 7});
  EXPECT_THAT(told(), ElementsAre("generation 3 stands", "workers 1, 7 got the state"));
}

TEST_F(RecoveriesTest, WhatIsNotUsualIsToldNoticeByNotice) {
  const std::vector<std::string> all = {"worker 2 killed; its log: words",
                                        "worker 2 is started anew and joins"};
  const auto begin = [this] {
    lose(2);
    start(2);
    EXPECT_THAT(told(), IsEmpty());
  };
  begin();
  tell(Turn::kWentBack, "all go back");
  tell(Turn::kEntered, "worker 2 got the state", {2});
  EXPECT_THAT(told(), ElementsAre(all[0], all[1], "all go back", "worker 2 got the state"));
  begin();
  recoveries_.take(Notice{Severity::kError, "the job ends"});
  EXPECT_THAT(told(), ElementsAre(all[0], all[1], "the job ends"));
  begin();
  recoveries_.take(RunEnded{});
  EXPECT_EQ(told(), all);
  begin();
  clock_.advance(std::chrono::seconds(5));
  recoveries_.tell_late();
  EXPECT_THAT(told(), IsEmpty());
  clock_.advance(std::chrono::milliseconds(1));
  recoveries_.tell_late();
  EXPECT_EQ(told(), all);
  tell(Turn::kStands, "generation 2 stands");
  tell(Turn::kEntered, "worker 2 got the state", {2});
  EXPECT_THAT(told(), ElementsAre("generation 2 stands", "worker 2 got the state"));
}

// As of one that was waited for, had wrong bits, or came to nothing as it started: its loss is no
// part of a recovery.
TEST_F(RecoveriesTest, WhoComesAfterALossOfAnotherKindIsTold) {
  lose(2);
  start(2);
  tell(Turn::kStands, "generation 2 stands");
  EXPECT_EQ(told().size(), 1U);
  recoveries_.take(Notice{Severity::kWarning, "worker 2 killed as it started"});
  start(2);
  tell(Turn::kStands, "generation 3 stands", {2});
  tell(Turn::kEntered, "worker 2 got the state", {2});
  EXPECT_THAT(told(),
              ElementsAre("worker 2 killed as it started", "worker 2 is started anew and joins",
                          "generation 3 stands", "worker 2 got the state"));
}

}  // namespace
}  // namespace muster::observe
