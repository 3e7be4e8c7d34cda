#include "muster/train/checkpoints.h"

#include <gtest/gtest.h>

#include <future>

#include "muster/checkpoint/checkpointer.h"
#include "muster/testing/memory_files.h"
#include "muster/train/testing/held_files.h"
#include "muster/train/testing/still.h"

namespace muster::train {
namespace {

using namespace std::chrono_literals;

class Weighted final : public Still {
 public:
  std::vector<parallel::StateSlice> model_state() override {
    return whole_slices({{"weight", view_of(std::span(weight_))}});
  }
  std::vector<parallel::StateSlice> optimizer_state() override { return {}; }

 private:
  std::vector<float> weight_ = {1, 2, 3};
};

class CheckpointsTest : public ::testing::Test {
 protected:
  CheckpointsTest() { EXPECT_TRUE(disk_.create_folders("/run")); }

  // A first rank that has just taken over.
  std::unique_ptr<Checkpoints> heir(Files& files, std::int64_t keep) {
    auto checkpoints = std::make_unique<Checkpoints>(
        CheckpointsOptions{
            .folder = "/run/checkpoints", .job = "test", .writes = false, .keep = keep},
        files, hub_, system_clock());
    checkpoints->enter(Generation{2}, true);
    return checkpoints;
  }

  std::vector<Step> saved() {
    checkpoint::Checkpointer checkpointer(disk_, system_clock(), "/run/checkpoints");
    return checkpointer.complete_steps().value();
  }

  testing::MemoryFiles disk_;
  observe::Hub hub_;
  Weighted strategy_;
};

TEST_F(CheckpointsTest, BeginsToSaveThoughTheDiskHangs) {
  HeldFiles hangs(disk_);
  const auto checkpoints = heir(hangs, 1);
  Progress progress;
  progress.committed = Step{1};
  auto begun = std::async(std::launch::async,
                          [&] { return checkpoints->save(progress, strategy_, SaveWorth{}); });
  const bool waits = begun.wait_for(30s) == std::future_status::timeout;
  hangs.let_go();
  EXPECT_FALSE(waits);
  EXPECT_TRUE(begun.get());
  EXPECT_TRUE(checkpoints->finish());
  EXPECT_EQ(checkpoints->newest().value(), Step{1});
}

// The better one was never saved.
TEST_F(CheckpointsTest, AnHeirKeepsTheBestThatIsThere) {
  Progress progress;
  progress.committed = Step{2};
  progress.best = Best{.value = 0.5, .step = Step{2}, .metric = "eval/loss"};
  {
    const auto first = heir(disk_, 1);
    ASSERT_TRUE(first->save(progress, strategy_, {.proven = true}));
    ASSERT_TRUE(first->finish());
  }
  progress.committed = Step{4};
  progress.best = Best{.value = 0.25, .step = Step{3}, .metric = "eval/loss"};
  const auto next = heir(disk_, 1);
  ASSERT_TRUE(next->save(progress, strategy_, {.proven = true}));
  ASSERT_TRUE(next->finish());
  EXPECT_EQ(saved(), (std::vector<Step>{Step{2}, Step{4}}));
}

}  // namespace
}  // namespace muster::train
