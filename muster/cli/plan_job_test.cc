#include "muster/cli/plan_job.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "muster/cli/fake_machine.h"
#include "muster/plan/testing/profiles.h"
#include "muster/testing/temp_folder.h"

namespace muster::cli {
namespace {

// Its worker says what it counts and, where it is to go on, what it measures.
class PlannedMachine final : public FakeMachine {
 public:
  Result<std::string> output_of(const std::vector<std::string>&,
                                std::chrono::milliseconds) override {
    ++measured_;
    return worker_;
  }
  Result<std::string> output_in_two(const std::vector<std::string>& command,
                                    std::chrono::milliseconds limit,
                                    const GoesOn& goes_on) override {
    ++started_;
    return FakeMachine::output_in_two(command, limit, goes_on);
  }
  int started_ = 0, measured_ = 0;
};

class PlanJob : public ::testing::Test {
 protected:
  PlanJob() {
    std::ofstream(folder_ / "muster-worker") << "";
    std::filesystem::permissions(folder_ / "muster-worker", std::filesystem::perms::owner_all);
    std::ofstream(folder_ / "text.txt") << "some text";
    std::ofstream(folder_ / "job.yaml")
        << "model: {type: gpt}\ndata: {type: text, path: " << (folder_ / "text.txt").native()
        << "}\ntraining: {max_steps: 4, global_batch_size: 32, virtual_workers: 8, "
           "micro_batch_size: 4}\nworkers: {count: 2}\n";
    plan::ModelProfile profile = plan::testing::blocks_alike(4);
    machine_.worker_ = plan::to_json(profile).dump() + "\n";
    profile.not_measured = "nothing was run";
    machine_.first_line_ = plan::to_json(profile).dump() + "\n";
  }

  Result<JobPlan> planned(std::uint64_t memory) {
    request_.memory = memory;
    MUSTER_ASSIGN(const job::Job job, job::load_job(system_files(), request_.job, {}));
    return plan_job(request_, job, context_);
  }

  testing::TempFolder folder_;
  PlannedMachine machine_;
  std::ostringstream out_, err_;
  Context context_{system_files(), system_clock(), machine_, out_, err_, {}, folder_ / "muster"};
  PlanRequest request_{.job = folder_ / "job.yaml", .options = {}};
};

TEST_F(PlanJob, CountsAndMeasuresInOneStart) {
  const auto plan = planned(std::uint64_t{1} << 40);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(plan->profile.counted());
  EXPECT_NE(plan->best(), nullptr);
  EXPECT_EQ(machine_.started_, 1);
  EXPECT_EQ(machine_.measured_, 1);
}

TEST_F(PlanJob, MeasuresNothingWhereNothingFits) {
  const auto plan = planned(1);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->profile.not_measured, "nothing was run");
  EXPECT_EQ(plan->best(), nullptr);
  EXPECT_EQ(machine_.started_, 1);
  EXPECT_EQ(machine_.measured_, 0);
}

TEST_F(PlanJob, KeepsOnlyWhatWasMeasured) {
  request_.profile = folder_ / "profile.json";
  ASSERT_TRUE(planned(1));
  EXPECT_FALSE(std::filesystem::exists(request_.profile));
  ASSERT_TRUE(planned(std::uint64_t{1} << 40));
  EXPECT_TRUE(std::filesystem::exists(request_.profile));
  EXPECT_EQ(machine_.started_, 2);
}

TEST_F(PlanJob, TellsWhyThereIsNothingToCount) {
  machine_.first_line_ = "data.path: there is nothing\n";
  machine_.worker_ = fail(ErrorCode::kNotFound, "data.path: there is nothing\nat all");
  const auto plan = planned(1);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message, "data.path: there is nothing\nat all");
}

}  // namespace
}  // namespace muster::cli
