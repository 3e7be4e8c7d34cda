#include "muster/app/data/ledger_audit.h"

#include <gtest/gtest.h>

#include "muster/data/roll_call.h"
#include "muster/observe/line_file.h"
#include "muster/observe/sinks/ledger/ledger.h"
#include "muster/testing/fake_clock.h"
#include "muster/testing/faulty_files.h"
#include "muster/testing/memory_files.h"

namespace muster::app {
namespace {

constexpr std::int64_t kEpoch = 100;
constexpr std::int64_t kBatch = 30;  // the last step of an epoch takes 10

class LedgerAuditTest : public ::testing::Test {
 protected:
  void open() {
    sink_.reset();
    sink_ = observe::create_ledger_sink(files_, "/l", clock_, [](const Error&) {}).value();
  }
  void start(std::int64_t after) {
    open();
    observe::RunStarted started;
    started.slices = 8;
    started.first_step = Step{after};
    started.epoch_size = kEpoch;
    started.batch = kBatch;
    sink_->take(started);
  }
  void commit(std::int64_t first, std::int64_t last, std::uint64_t generation = 1) {
    for (std::int64_t step = first; step <= last; ++step) {
      const data::Cursor cursor = plan_.at(Step{step - 1});
      const Share positions = plan_.step(cursor);
      sink_->take(observe::StepCommitted{Step{step}, Generation{generation}, cursor.epoch,
                                         positions.begin, positions.end,
                                         data::roll_of(plan_, cursor)});
    }
  }
  std::string text() {
    sink_.reset();
    return files_.read("/l").value();
  }
  LedgerAudit audit() { return audit_ledger(text()).value(); }

  data::StepPlan plan_{{.epoch_size = kEpoch, .batch = kBatch, .slices = 8}};
  testing::MemoryFiles files_;
  testing::FakeClock clock_;
  std::shared_ptr<observe::Sink> sink_;
};

TEST_F(LedgerAuditTest, AnUndisturbedRunIsWell) {
  start(0);
  commit(1, 9);
  const LedgerAudit found = audit();
  EXPECT_TRUE(found.well()) << found.faults.front();
  EXPECT_TRUE(found.proven());
  EXPECT_EQ(found.steps, 9);
  EXPECT_EQ(found.samples, 230);
  EXPECT_EQ(found.whole_epochs, 2);
  EXPECT_EQ(found.generations, 1);
}

TEST_F(LedgerAuditTest, GenerationsAndResumesAreWell) {
  start(0);
  commit(1, 5);
  commit(6, 11, 2);
  start(8);
  commit(9, 12);
  const LedgerAudit found = audit();
  EXPECT_TRUE(found.well()) << found.faults.front();
  EXPECT_TRUE(found.proven());
  EXPECT_EQ(found.steps, 12);
  EXPECT_EQ(found.superseded, 3);
  EXPECT_EQ(found.starts, 2);
}

TEST_F(LedgerAuditTest, StepsThatAreTakenAgainAfterADeathAreCountedOnce) {
  start(0);
  commit(1, 5);
  sink_->take(observe::WentBack{Step{2}, Generation{2}});
  commit(3, 4, 2);
  sink_->take(observe::WentBack{Step{2}, Generation{3}});
  commit(3, 9, 3);
  const LedgerAudit found = audit();
  EXPECT_TRUE(found.proven()) << found.faults.front();
  EXPECT_EQ(found.steps, 9);
  EXPECT_EQ(found.superseded, 5);
  EXPECT_EQ(found.starts, 1);
}

TEST_F(LedgerAuditTest, WhoWentBackAndDidNotTakeTheStepsAgainIsFound) {
  start(0);
  commit(1, 5);
  sink_->take(observe::WentBack{Step{2}, Generation{2}});
  commit(6, 9, 2);
  const LedgerAudit found = audit();
  EXPECT_FALSE(found.well());
  EXPECT_EQ(found.lost, 70);  // steps 3 to 5; the epoch's last step is the smaller one
}

TEST_F(LedgerAuditTest, WhatADeadLauncherDidNotWriteIsCountedApart) {
  start(0);
  commit(1, 5);
  start(8);
  commit(9, 9);
  const LedgerAudit found = audit();
  EXPECT_TRUE(found.well());
  EXPECT_FALSE(found.proven()) << "nothing says what the steps consumed that are in no ledger";
  EXPECT_EQ(found.unrecorded, 3);
}

TEST_F(LedgerAuditTest, WhatIsTrainedAgainIsRecordedAfterAll) {
  start(0);
  commit(1, 5);
  start(8);
  commit(9, 9);
  start(6);  // an older checkpoint: of the three only step 6 stays without a line
  commit(7, 9);
  EXPECT_EQ(audit().unrecorded, 1);
  start(4);
  commit(5, 9);
  EXPECT_TRUE(audit().proven());
}

// As of a disk that was full for longer than memory could bear.
class LedgerGapTest : public LedgerAuditTest {
 protected:
  LedgerGapTest() {
    sink_ = observe::create_ledger_sink(full_, "/l", clock_, [](const Error&) {}).value();
    observe::RunStarted started;
    started.slices = 8;
    started.epoch_size = kEpoch;
    started.batch = kBatch;
    sink_->take(started);
    commit(1, 5);
    sink_->take(observe::CheckpointWritten{});
  }
  // Lines that wait, until the next one finds no room: they take back what they say themselves.
  void fill_memory() {
    full_.fail_at(0, testing::Fault::kNoSpace);
    constexpr std::size_t kShortestLine = 50;
    for (std::size_t at = 0; at < observe::LineFile::kMostWaiting / kShortestLine; ++at)
      sink_->take(observe::WentBack{.to = Step{5}, .generation = Generation{1}});
  }
  void write_again() { clock_.advance(observe::LineFile::kTriesAgainAfter); }

  testing::FaultyFiles full_{files_};
};

TEST_F(LedgerGapTest, StepsWhoseLinesWereLostAreNamed) {
  fill_memory();
  commit(6, 8);
  sink_->take(observe::CheckpointWritten{});
  commit(9, 11, 2);
  sink_->take(observe::CheckpointWritten{});
  write_again();
  commit(12, 14, 2);
  const LedgerAudit found = audit();
  EXPECT_TRUE(found.well()) << found.faults.front();
  EXPECT_FALSE(found.proven());
  EXPECT_EQ(found.unrecorded, 6);
  EXPECT_EQ(found.unrecorded_ranges, (decltype(found.unrecorded_ranges){{6, 11}}));
  EXPECT_EQ(found.steps, 14);
}

TEST_F(LedgerGapTest, SoAreThoseThatALostLineTookBack) {
  fill_memory();
  commit(6, 8);
  sink_->take(observe::WentBack{.to = Step{3}, .generation = Generation{2}});
  commit(4, 7, 2);
  sink_->take(observe::CheckpointWritten{});
  write_again();
  commit(8, 9, 2);
  const LedgerAudit found = audit();
  EXPECT_TRUE(found.well()) << found.faults.front();
  EXPECT_EQ(found.unrecorded_ranges, (decltype(found.unrecorded_ranges){{4, 7}}));
  EXPECT_EQ(found.superseded, 2);
  EXPECT_EQ(found.steps, 9);
}

TEST_F(LedgerAuditTest, StepsThatTheRunHasBeyondItAreUnrecorded) {
  start(0);
  commit(1, 5);
  EXPECT_TRUE(audit_ledger(text(), Step{5})->proven());
  EXPECT_TRUE(audit_ledger(text(), Step{3})->proven());
  const auto found = audit_ledger(text(), Step{9});
  EXPECT_TRUE(found->well());
  EXPECT_FALSE(found->proven());
  EXPECT_EQ(found->steps, 9);
  EXPECT_EQ(found->unrecorded_ranges, (decltype(found->unrecorded_ranges){{6, 9}}));
}

TEST_F(LedgerAuditTest, ALedgerWithoutAStepProvesNothing) {
  start(0);
  const LedgerAudit found = audit();
  EXPECT_FALSE(found.well());
  EXPECT_FALSE(found.proven());
  ASSERT_EQ(found.faults.size(), 1U);
  EXPECT_TRUE(found.faults[0].starts_with("nothing is committed")) << found.faults[0];
}

TEST_F(LedgerAuditTest, ALostAndARepeatedStepAreCountedInSamples) {
  start(0);
  commit(1, 2);
  commit(4, 5);  // step 4 takes the last ten
  EXPECT_EQ(audit().lost, 30);
  start(0);
  commit(1, 4);
  commit(4, 4);
  const LedgerAudit found = audit();
  EXPECT_EQ(found.repeated, 10);
  EXPECT_FALSE(found.well());
}

TEST_F(LedgerAuditTest, ADamagedNumberCostsNoTime) {
  start(0);
  commit(1, 4);
  const std::string whole = text();
  const auto damage = [&](const std::string& from, const std::string& to) {
    std::string damaged = whole;
    const std::size_t at = damaged.find(from);
    ASSERT_NE(at, std::string::npos) << damaged;
    damaged.replace(at, from.size(), to);
    const auto found = audit_ledger(damaged);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_FALSE(found->well()) << damaged;
  };
  damage("\"steps\":[1,4]", "\"steps\":[1,9000000000000000000]");
  damage("\"steps\":[1,4]", "\"steps\":[-9000000000000000000,4]");
  damage("\"epoch\":0", "\"epoch\":9000000000000000000");
}

TEST_F(LedgerAuditTest, AnyChangedLineIsFound) {
  start(0);
  commit(1, 4);
  commit(5, 9, 2);
  const std::string whole = text();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = changed[at] == '1' ? '2' : '1';
    if (changed == whole) continue;
    const auto found = audit_ledger(changed);
    EXPECT_TRUE(!found || !found->well()) << at;
  }
}

TEST_F(LedgerAuditTest, OtherSlicesAreNotTheSameRoll) {
  start(0);
  data::StepPlan other({.epoch_size = kEpoch, .batch = kBatch, .slices = 4});
  sink_->take(observe::StepCommitted{Step{1}, Generation{1}, 0, 0, 30,
                                     data::roll_of(other, data::Cursor{})});
  EXPECT_FALSE(audit().well());
}

TEST_F(LedgerAuditTest, WhatIsNoLedgerIsRefused) {
  for (const char* text : {"", "\n", "{}\n", "hello\n", "{\"generation\":1}\n"}) {
    EXPECT_FALSE(audit_ledger(text)) << text;
  }
}

}  // namespace
}  // namespace muster::app
