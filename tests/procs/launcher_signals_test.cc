// What signals to a launcher do to its job.
#include <utility>

#include "tests/procs/local_launcher.h"

namespace muster::cluster {
namespace {

TEST_F(LocalLauncher, ASignalAsksForACheckpointAndAnEnd) {
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) {
    watcher_.stops.clear();
    watcher_.then = [number](Watcher&) { std::raise(number); };
    const auto end = run("wait", 0);
    EXPECT_FALSE(end.failure) << describe(*end.failure);
    EXPECT_EQ(end.signal, number);
    EXPECT_EQ(end.exit_statuses, (std::vector<int>{0, 0, 0}));
    EXPECT_EQ(watcher_.stops, std::vector{Stopping::kAfterTheStep});
    EXPECT_EQ(watcher_.lines[1].back(), "stopped as asked");
  }
}

TEST_F(LocalLauncher, ASignalAfterAFailureIsNotWhatEndedTheJob) {
  spec_.grace =
      muster::testing::kHang;  // for both of the others to hear of it: then they are killed
  int told = 0;
  watcher_.on_each_line = [&](const std::string&) { std::raise(++told == 1 ? SIGTERM : SIGINT); };
  EXPECT_EQ(run_to_failure("end_before_others", 1).rank, Rank{1});
  EXPECT_EQ(told, 2);
  EXPECT_TRUE(watcher_.stops.empty());
}

TEST_F(LocalLauncher, ASecondSignalEndsAtOnce) {
  int ready = 0;
  watcher_.on_each_line = [&](const std::string& line) {
    if (line != "ready" || ++ready < 3) return;
    std::raise(SIGTERM);
    std::raise(SIGINT);
  };
  const auto end = run("stubborn", 0);
  EXPECT_EQ(ready, 3);
  EXPECT_FALSE(end.failure);
  EXPECT_TRUE(end.signal);
  EXPECT_EQ(end.exit_statuses, (std::vector<int>{-SIGKILL, -SIGKILL, -SIGKILL}));
  EXPECT_EQ(watcher_.stops, (std::vector{Stopping::kAfterTheStep, Stopping::kAtOnce}));
}

TEST_F(LocalLauncher, ASignalBeforeAnythingHasBegunDoesNotWaitForIt) {
  spec_.begin_patience = std::chrono::seconds(1);
  watcher_.then = [](Watcher&) { std::raise(SIGTERM); };
  const auto end = run("never_begin", 0);
  EXPECT_FALSE(end.failure);
  EXPECT_EQ(end.signal, SIGTERM);
  EXPECT_EQ(end.exit_statuses, (std::vector<int>{-SIGKILL, -SIGKILL, -SIGKILL}));
  EXPECT_EQ(watcher_.stops, (std::vector{Stopping::kAfterTheStep, Stopping::kNothingBegun}));
}

TEST_F(LocalLauncher, WhoHasNotBegunIsStartingWhenItIsAskedWhereItIs) {
  for (const char* act : {"stay_out", "never_begin"}) {
    spec_.begin_patience = std::chrono::seconds(1);
    spec_.dump_patience = muster::testing::kHang;  // nobody who has not begun is waited for so long
    watcher_.starting.clear();
    watcher_.then = [](Watcher&) { std::raise(SIGUSR2); };
    bool asked = false;
    watcher_.on_each_line = [&](const std::string&) {
      if (!std::exchange(asked, true)) std::raise(SIGUSR2);
    };
    watcher_.on_each_dumps = [] { std::raise(SIGTERM); };
    const auto end = run(act, -1);
    EXPECT_FALSE(end.failure) << describe(*end.failure);
    EXPECT_THAT(watcher_.starting, ::testing::ElementsAre(0, 1, 2)) << act;
  }
}

// Says that this host is wanted back whenever it is told to; after the job it tells nobody.
class Notices {
 public:
  HostWatch watch() {
    return [this](OnNotice on_notice) {
      on_notice_ = std::move(on_notice);
      return std::shared_ptr<void>(this, [this](void*) { on_notice_ = {}; });
    };
  }
  void tell(const std::string& from) { on_notice_(from); }
  bool tells_nobody() const { return !on_notice_; }

 private:
  OnNotice on_notice_;
};

TEST_F(LocalLauncher, ANoticeForItsHostStopsAllWithACheckpoint) {
  Notices notices;
  spec_.watch_host = notices.watch();
  watcher_.then = [&](Watcher&) {
    notices.tell("file wanted-back");
    notices.tell("file wanted-back");  // it stays there
  };
  const auto end = run("wait", 0);
  EXPECT_FALSE(end.failure) << describe(*end.failure);
  EXPECT_EQ(end.signal, SIGTERM);
  EXPECT_TRUE(end.stop_asked);
  EXPECT_EQ(end.exit_statuses, (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(watcher_.notices,
            (std::vector{std::pair(std::string("file wanted-back"), Stopping::kAfterTheStep)}));
  EXPECT_TRUE(watcher_.stops.empty());
  EXPECT_EQ(watcher_.lines[1].back(), "stopped as asked");
  EXPECT_TRUE(notices.tells_nobody());
}

// As init systems send it to all processes of a host that goes down.
TEST_F(LocalLauncher, ASignalAfterANoticeDoesNotInsist) {
  Notices notices;
  spec_.watch_host = notices.watch();
  watcher_.then = [&](Watcher&) { notices.tell("command"); };
  watcher_.on_each_notice = [] { std::raise(SIGTERM); };
  const auto end = run("wait", 0);
  EXPECT_FALSE(end.failure);
  EXPECT_EQ(end.exit_statuses, (std::vector<int>{0, 0, 0})) << "nobody was killed";
  EXPECT_EQ(watcher_.notices.size(), 1U);
  EXPECT_EQ(watcher_.stops, std::vector{Stopping::kAfterTheStep});
}

TEST_F(LocalLauncher, ANoticeBeforeAnythingHasBegunDoesNotWaitForIt) {
  Notices notices;
  spec_.watch_host = notices.watch();
  spec_.begin_patience = std::chrono::seconds(1);
  watcher_.then = [&](Watcher&) { notices.tell("command"); };
  const auto end = run("never_begin", 0);
  EXPECT_FALSE(end.failure);
  EXPECT_EQ(end.signal, SIGTERM);
  EXPECT_EQ(end.exit_statuses, (std::vector<int>{-SIGKILL, -SIGKILL, -SIGKILL}));
  EXPECT_EQ(watcher_.notices,
            (std::vector{std::pair(std::string("command"), Stopping::kAfterTheStep),
                         std::pair(std::string("command"), Stopping::kNothingBegun)}));
}

}  // namespace
}  // namespace muster::cluster
