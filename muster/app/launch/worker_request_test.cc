#include "muster/app/launch/worker_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

#include "muster/testing/fake_clock.h"
#include "muster/testing/temp_folder.h"

namespace muster::app {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class WorkerRequestTest : public ::testing::Test {
 protected:
  std::unique_ptr<WorkerRequest> requesting(const std::string& command,
                                            Duration limit = seconds(60)) {
    return std::make_unique<WorkerRequest>(
        WorkerRequestSpec{.command = command,
                          .environment = {{"MUSTER_JOIN_CREDENTIALS", "/runs/a/join.key"}},
                          .limit = limit,
                          .gap = seconds(10),
                          .patience = seconds(100)},
        clock_, system_processes(), log_);
  }
  static void wait_for_end(const WorkerRequest& request) {
    while (request.is_under_way()) std::this_thread::sleep_for(milliseconds(1));
  }

  testing::FakeClock clock_;
  std::ostringstream logged_;
  Logger log_ = std::make_shared<spdlog::logger>(
      "", std::make_shared<spdlog::sinks::ostream_sink_mt>(logged_));
};

TEST_F(WorkerRequestTest, TellsTheCommandHowManyAreWantedAndLogsWhatItSays) {
  const auto request = requesting(
      "echo from $MUSTER_REQUEST_PRESENT to $MUSTER_REQUEST_WANTED, $MUSTER_REQUEST_MORE more, by "
      "$MUSTER_JOIN_CREDENTIALS");
  EXPECT_TRUE(request->ask({2, 5}));
  wait_for_end(*request);
  EXPECT_THAT(logged_.str(),
              HasSubstr("exit status 0; it wrote: from 2 to 5, 3 more, by /runs/a/join.key"));
}

TEST_F(WorkerRequestTest, OfACommandThatFailsTheExitStatusAndTheReasonAreLogged) {
  const auto request = requesting("echo no such partition >&2; exit 7");
  EXPECT_TRUE(request->ask({1, 2}));
  wait_for_end(*request);
  EXPECT_THAT(logged_.str(), HasSubstr("warn"));
  EXPECT_THAT(logged_.str(), HasSubstr("exit status 7; it wrote: no such partition"));
}

TEST_F(WorkerRequestTest, KeepsAGapFromOneCallToTheNextAlsoWhereOneHasFailed) {
  const auto request = requesting("false");
  EXPECT_TRUE(request->ask({1, 2}));
  wait_for_end(*request);
  clock_.advance(seconds(9));
  EXPECT_FALSE(request->ask({1, 2}));
  clock_.advance(seconds(1));
  EXPECT_TRUE(request->ask({1, 2}));
}

// As in the queue of a cluster that is full.
TEST_F(WorkerRequestTest, WhoWasAskedForAndHasNotComeIsNotAskedForAgainBeforeThePatienceEnds) {
  const auto request = requesting("echo $MUSTER_REQUEST_MORE more");
  EXPECT_TRUE(request->ask({1, 4, 0}));
  wait_for_end(*request);
  clock_.advance(seconds(50));
  EXPECT_FALSE(request->ask({1, 4, 0})) << "all are on the way";
  EXPECT_TRUE(request->ask({1, 6, 0})) << "two more than those";
  wait_for_end(*request);
  EXPECT_THAT(logged_.str(), HasSubstr("it wrote: 2 more"));
  clock_.advance(seconds(49));
  EXPECT_FALSE(request->ask({1, 6, 0}));
  clock_.advance(seconds(1));
  EXPECT_TRUE(request->ask({1, 6, 0})) << "the first three do not come any more";
  wait_for_end(*request);
  const std::string said = logged_.str();
  EXPECT_THAT(said.substr(said.find("2 more")), HasSubstr("it wrote: 3 more"))
      << "the last two still may";
}

TEST_F(WorkerRequestTest, WhoHasComeIsNotComingAndIsMissedOnceItIsLost) {
  const auto request = requesting("echo $MUSTER_REQUEST_MORE more");
  EXPECT_TRUE(request->ask({1, 3, 0}));
  wait_for_end(*request);
  clock_.advance(seconds(10));
  EXPECT_FALSE(request->ask({2, 3, 1})) << "the other one is on the way";
  EXPECT_TRUE(request->ask({1, 3, 1})) << "the one that came has gone";
  wait_for_end(*request);
  EXPECT_THAT(logged_.str(), HasSubstr("it wrote: 1 more"));
}

TEST_F(WorkerRequestTest, ACallThatFailsHasStartedNobody) {
  const auto request = requesting("echo $MUSTER_REQUEST_MORE more; exit 1");
  EXPECT_TRUE(request->ask({1, 3, 0}));
  wait_for_end(*request);
  clock_.advance(seconds(10));
  EXPECT_TRUE(request->ask({1, 3, 0}));
}

TEST_F(WorkerRequestTest, ACallLastsNoLongerThanItsLimit) {
  const auto request = requesting("sleep 1000", milliseconds(50));
  EXPECT_TRUE(request->ask({1, 2}));
  wait_for_end(*request);
  EXPECT_THAT(logged_.str(), HasSubstr("has not ended within"));
}

TEST_F(WorkerRequestTest, RunsOneCallAtATimeAndItsEndWaitsForNone) {
  const auto request = requesting("sleep 1000");
  EXPECT_TRUE(request->ask({1, 2}));
  clock_.advance(seconds(11));
  EXPECT_FALSE(request->ask({1, 2}));
}

}  // namespace
}  // namespace muster::app
