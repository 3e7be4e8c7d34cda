#include "muster/train/checkpoints.h"

#include <gtest/gtest.h>

#include <future>

#include "muster/testing/memory_files.h"
#include "muster/train/testing/held_files.h"

namespace muster::train {
namespace {

using namespace std::chrono_literals;

// One that has a state, and does nothing with it.
class Still final : public parallel::Strategy {
 public:
  Result<parallel::StepReport> step(const parallel::StepInput&) override {
    return parallel::StepReport();
  }
  Status enter(std::shared_ptr<comm::Communicator>, const comm::LeafOwners&) override {
    return ok();
  }
  std::optional<Step> kept() const override { return std::nullopt; }
  void fall_behind() override {}
  bool behind() const noexcept override { return false; }
  Status catch_up() override { return ok(); }
  Status evaluate(const data::StepBatch&, std::span<parallel::EvaluationTotals>) override {
    return ok();
  }
  Result<parallel::EvaluationTotals> combine(std::span<const parallel::EvaluationTotals>) override {
    return parallel::EvaluationTotals();
  }
  Status use_average(bool) override { return ok(); }
  std::vector<parallel::StateSlice> model_state() override {
    return whole_slices({{"weight", view_of(std::span(weight_))}});
  }
  std::vector<parallel::StateSlice> optimizer_state() override { return {}; }
  void loaded(std::int64_t) override {}

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

  testing::MemoryFiles disk_;
  observe::Hub hub_;
  Still strategy_;
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

}  // namespace
}  // namespace muster::train
