#include "muster/cli/data_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "muster/cli/application.h"
#include "muster/cli/fake_machine.h"
#include "muster/data/roll_call.h"
#include "muster/data/step_plan.h"
#include "muster/observe/sinks/ledger/ledger.h"
#include "muster/testing/temp_folder.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;

class DataAuditTest : public ::testing::Test {
 protected:
  DataAuditTest() { std::ofstream(folder_ / "resolved.yaml") << ""; }  // as a run's folder has it
  void start(std::int64_t after) {
    sink_.reset();
    sink_ =
        *observe::create_ledger_sink(system_files(), ledger(), system_clock(), [](const Error&) {});
    observe::RunStarted started;
    started.slices = 8;
    started.first_step = Step{after};
    started.epoch_size = plan_.options().epoch_size;
    started.batch = plan_.options().batch;
    sink_->take(started);
  }
  void commit(std::int64_t step, std::uint64_t wrong = 0) {
    const data::Cursor cursor = plan_.at(Step{step - 1});
    const Share positions = plan_.step(cursor);
    sink_->take(observe::StepCommitted{Step{step}, Generation{1}, cursor.epoch, positions.begin,
                                       positions.end, data::roll_of(plan_, cursor) + wrong});
  }
  ExitCode audit() {
    sink_.reset();
    out_.str("");
    Context context{system_files(), system_clock(), machine_, out_, err_, {}, folder_ / "muster"};
    return run({"data", "audit", "--json", folder_.path().native()}, context);
  }
  Path ledger() const { return folder_ / "ledger.jsonl"; }

  testing::TempFolder folder_;
  data::StepPlan plan_{{.epoch_size = 100, .batch = 30, .slices = 8}};
  std::shared_ptr<observe::Sink> sink_;
  FakeMachine machine_;
  std::ostringstream out_, err_;
};

TEST_F(DataAuditTest, OnlyAProofEndsWithZero) {
  start(0);
  commit(1);
  EXPECT_EQ(audit(), ExitCode::kDone) << out_.str() << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("\"proven\":true"));
  start(3);  // the launcher was killed before it wrote of steps 2 and 3
  commit(4);
  EXPECT_EQ(audit(), ExitCode::kEnvironment) << out_.str();
  EXPECT_THAT(out_.str(), HasSubstr("\"well\":true,\"proven\":false"));
  EXPECT_THAT(out_.str(), HasSubstr("\"unrecorded_steps\":2,\"unrecorded_ranges\":[[2,3]]"));
}

TEST_F(DataAuditTest, WhatIsWrongComesBeforeWhatIsMissing) {
  start(0);
  commit(1);
  start(3);
  commit(4, 1);
  EXPECT_EQ(audit(), ExitCode::kFailed) << out_.str();
  EXPECT_THAT(out_.str(), HasSubstr("roll call"));
}

TEST_F(DataAuditTest, NoLedgerAndWhatIsNoneAreMissing) {
  EXPECT_EQ(audit(), ExitCode::kEnvironment);
  EXPECT_THAT(err_.str(), HasSubstr("no ledger in"));
  std::ofstream(ledger()) << "rubbish\n";
  EXPECT_EQ(audit(), ExitCode::kEnvironment);
  EXPECT_THAT(err_.str(), HasSubstr("not a ledger"));
}

}  // namespace
}  // namespace muster::cli
