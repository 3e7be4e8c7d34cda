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
                          .gap = seconds(10)},
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
      "echo from $MUSTER_REQUEST_PRESENT to $MUSTER_REQUEST_WANTED by $MUSTER_JOIN_CREDENTIALS");
  EXPECT_TRUE(request->ask(2, 5));
  wait_for_end(*request);
  EXPECT_THAT(logged_.str(), HasSubstr("exit status 0; it wrote: from 2 to 5 by /runs/a/join.key"));
}

TEST_F(WorkerRequestTest, OfACommandThatFailsTheExitStatusAndTheReasonAreLogged) {
  const auto request = requesting("echo no such partition >&2; exit 7");
  EXPECT_TRUE(request->ask(1, 2));
  wait_for_end(*request);
  EXPECT_THAT(logged_.str(), HasSubstr("warn"));
  EXPECT_THAT(logged_.str(), HasSubstr("exit status 7; it wrote: no such partition"));
}

TEST_F(WorkerRequestTest, KeepsAGapFromOneCallToTheNext) {
  const auto request = requesting("true");
  EXPECT_TRUE(request->ask(1, 2));
  wait_for_end(*request);
  clock_.advance(seconds(9));
  EXPECT_FALSE(request->ask(1, 2));
  clock_.advance(seconds(1));
  EXPECT_TRUE(request->ask(1, 2));
}

TEST_F(WorkerRequestTest, ACallLastsNoLongerThanItsLimit) {
  const auto request = requesting("sleep 1000", milliseconds(50));
  EXPECT_TRUE(request->ask(1, 2));
  wait_for_end(*request);
  EXPECT_THAT(logged_.str(), HasSubstr("has not ended within"));
}

TEST_F(WorkerRequestTest, RunsOneCallAtATimeAndItsEndWaitsForNone) {
  const auto request = requesting("sleep 1000");
  EXPECT_TRUE(request->ask(1, 2));
  clock_.advance(seconds(11));
  EXPECT_FALSE(request->ask(1, 2));
}

}  // namespace
}  // namespace muster::app
