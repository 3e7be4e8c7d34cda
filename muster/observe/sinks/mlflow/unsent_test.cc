#include "muster/observe/sinks/mlflow/unsent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "muster/observe/sinks/mlflow/testing/fake_tracking.h"
#include "muster/testing/memory_files.h"

namespace muster::observe::mlflow {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using testing::FakeTracking;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class UnsentTest : public ::testing::Test {
 protected:
  UnsentTest() {
    EXPECT_TRUE(files_.create_folders("/run"));
    unsent_.run = {.tracking_uri = "http://tracking",
                   .experiment = "fashion",
                   .name = "first \"try\"",
                   .id = "20261126T204203Z-8d4246",
                   .params = {{"model.type", "mlp"}, {"training.max_steps", "100"}},
                   .tags = {{"mlflow.user", "ada"}},
                   .record = "/run/mlflow.json"};
    unsent_.start = WallTime(milliseconds(500));
    unsent_.ending = {.state = RunState::kStopped,
                      .artifacts = {"/run/report.html", "/run/gone.json"},
                      .at = WallTime(milliseconds(9000))};
    for (int step = 1; step <= 2500; ++step) unsent_.rows.push_back(row(step, 0.1 * step));
  }
  static Metrics row(int step, double loss) {
    Metrics row;
    row.step = Step{step};
    row.time = WallTime(milliseconds(1000 + step));
    row.values = {{"train/loss", loss}};
    return row;
  }
  Result<Delivered> send(const Unsent& unsent) {
    const auto server = there_->connect();
    return deliver(unsent, *server, files_,
                   [this](Severity, const std::string& text) { told_.push_back(text); });
  }

  testing::MemoryFiles files_;
  std::shared_ptr<FakeTracking> there_ = std::make_shared<FakeTracking>();
  Unsent unsent_;
  std::vector<std::string> told_;
};

TEST_F(UnsentTest, ComesBackAsItWasWritten) {
  unsent_.rows.push_back(row(2501, std::numeric_limits<double>::quiet_NaN()));
  ASSERT_TRUE(write_unsent(files_, "/run/left.jsonl", unsent_));
  const auto read = read_unsent(files_, "/run/left.jsonl");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->run.tracking_uri, unsent_.run.tracking_uri);
  EXPECT_EQ(read->run.experiment, unsent_.run.experiment);
  EXPECT_EQ(read->run.name, unsent_.run.name);
  EXPECT_EQ(read->run.id, unsent_.run.id);
  ASSERT_THAT(read->run.params, SizeIs(2));
  EXPECT_EQ(read->run.params[1].key, "training.max_steps");
  EXPECT_EQ(read->run.params[1].value, "100");
  ASSERT_THAT(read->run.tags, SizeIs(1));
  EXPECT_EQ(read->start, unsent_.start);
  ASSERT_TRUE(read->ending);
  EXPECT_EQ(read->ending->state, RunState::kStopped);
  EXPECT_EQ(read->ending->artifacts, unsent_.ending->artifacts);
  EXPECT_EQ(read->ending->at, unsent_.ending->at);
  ASSERT_THAT(read->rows, SizeIs(2501));
  EXPECT_EQ(read->rows[1233], unsent_.rows[1233]);
  EXPECT_TRUE(std::isnan(read->rows[2500].values[0].value));
}

TEST_F(UnsentTest, OfARunThatWasKilledThereIsNoEnd) {
  unsent_.ending.reset();
  unsent_.rows.clear();
  ASSERT_TRUE(write_unsent(files_, "/run/left.jsonl", unsent_));
  const auto read = read_unsent(files_, "/run/left.jsonl");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_FALSE(read->ending);
  EXPECT_THAT(read->rows, IsEmpty());
}

TEST_F(UnsentTest, NothingLeftAndADamagedFileAreToldApart) {
  const auto none = read_unsent(files_, "/run/left.jsonl");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  for (const char* text : {"", "{}\n", "half a li", "{\"type\":\"metrics\",\"step\":1}\n"}) {
    ASSERT_TRUE(write_atomically(files_, "/run/left.jsonl", text));
    const auto read = read_unsent(files_, "/run/left.jsonl");
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(read.error().message, HasSubstr("/run/left.jsonl"));
  }
}

TEST_F(UnsentTest, AFileOfAnotherFolderIsNeverSent) {
  unsent_.ending->artifacts = {"/run/../etc/passwd"};
  ASSERT_TRUE(write_unsent(files_, "/run/left.jsonl", unsent_));
  EXPECT_THAT(read_unsent(files_, "/run/left.jsonl").value().ending->artifacts,
              ElementsAre(Path("/run/passwd")));
}

TEST_F(UnsentTest, AllOfItArrivesWithTheEndOfTheRun) {
  ASSERT_TRUE(write_atomically(files_, "/run/report.html", "<p>"));
  const auto sent = send(unsent_);
  ASSERT_TRUE(sent) << sent.error().message;
  EXPECT_EQ(sent->numbers, 2500U);
  EXPECT_EQ(sent->page, "http://tracking/#/experiments/7/runs/run-1");
  const FakeTracking::Run run = there_->run();
  EXPECT_EQ(run.name, "first \"try\"");
  EXPECT_EQ(run.status, "KILLED");
  EXPECT_THAT(run.metrics, SizeIs(2500));
  EXPECT_EQ(run.params.at("training.max_steps"), "100");
  EXPECT_EQ(run.artifacts.at("7/run-1/artifacts/report.html"), "<p>");
  EXPECT_THAT(told_, ElementsAre(HasSubstr("/run/gone.json")));
}

TEST_F(UnsentTest, AServerThatIsStillAwayIsAskedOnceAndAnotherTimeTheSameRunGoesOn) {
  there_->set(FakeTracking::State::kAway);
  const auto away = send(unsent_);
  ASSERT_FALSE(away);
  EXPECT_EQ(away.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(there_->asked(), 1U);
  there_->set(FakeTracking::State::kUp);
  there_->lose_answers_of("runs/update", 1);
  EXPECT_FALSE(send(unsent_)) << "the last answer is lost";
  EXPECT_TRUE(send(unsent_));
  EXPECT_EQ(there_->runs(), 1U);
}

}  // namespace
}  // namespace muster::observe::mlflow
