// When a training saves, on a disk that hangs for a while.
#include <gtest/gtest.h>

#include <thread>

#include "muster/checkpoint/checkpointer.h"
#include "muster/testing/memory_files.h"
#include "muster/train/testing/held_files.h"
#include "muster/train/testing/town.h"

namespace muster::train {
namespace {

using namespace std::chrono_literals;

using Steps = std::vector<std::int64_t>;

class SavesTest : public ::testing::Test {
 protected:
  SavesTest() { EXPECT_TRUE(disk_.create_folders("/run")); }

  // Worker 0's way to the disk hangs.
  Saving saving() {
    return {.every = 6, .disk = [this](std::int32_t worker) -> Files& {
              if (worker == 0) return hangs_;
              return disk_;
            }};
  }

  Steps saved() {
    checkpoint::Checkpointer checkpointer(disk_, system_clock(), "/run/checkpoints");
    const auto found = checkpointer.complete_steps();
    EXPECT_TRUE(found);
    Steps steps;
    for (const Step step : found.value()) steps.push_back(to_int(step));
    return steps;
  }

  void wait_until_saved(std::int64_t step) {
    const Deadline deadline = Deadline::after(system_clock(), 30s);
    while (std::ranges::count(saved(), step) == 0 && !deadline.passed(system_clock()))
      std::this_thread::sleep_for(1ms);
  }

  testing::MemoryFiles disk_;
  HeldFiles hangs_{disk_};
};

// Replicas are compared after every fifth step, and before each save that comes about.
TEST_F(SavesTest, NobodyComparesForOneThatIsPutOff) {
  Town town(3);
  const auto ends = train(
      town, 3, {.saving = saving(), .before_step = [&](std::int32_t worker, std::int64_t step) {
                  if (worker != 0 || step != 17) return;
                  hangs_.let_go();
                  wait_until_saved(6);
                }});
  for (const auto& [worker, end] : ends) expect_well(end, undisturbed());
  EXPECT_NE(ends.at(0).told.find("the checkpoint of step 12 is put off"), std::string::npos)
      << ends.at(0).told;
  const std::set<std::int64_t>& compared = ends.at(1).compared;
  for (const std::int64_t step : {12, 13, 14, 16}) EXPECT_FALSE(compared.contains(step)) << step;
  const Steps steps = saved();
  EXPECT_EQ(steps.front(), 6);
  EXPECT_EQ(steps.back(), kSteps);
  EXPECT_GE(steps.size(), 2U);
  for (const std::int64_t step : steps) EXPECT_TRUE(compared.contains(step)) << step;
}

// Worker 0 dies at step 8, the save of step 6 under way or not.
class HeirTest : public SavesTest {
 protected:
  void expect_saved_after(const std::function<void()>& death, const Steps& steps) {
    Town town(3);
    auto ends = train(town, 3,
                      {.death = Death{0, 8},
                       .saving = saving(),
                       .before_step = [&](std::int32_t worker, std::int64_t step) {
                         if (worker == 0 && step == 8) death();
                       }});
    EXPECT_EQ(ends.at(0).error, "dead");
    ends.erase(0);
    for (const auto& [worker, end] : ends) {
      expect_well(end, undisturbed());
      EXPECT_EQ(end.told.find("is put off"), std::string::npos) << end.told;
    }
    EXPECT_EQ(saved(), steps);
    const std::set<std::int64_t>& compared = ends.at(1).compared;
    for (const std::int64_t step : steps) EXPECT_TRUE(compared.contains(step)) << step;
  }
};

TEST_F(HeirTest, MakesUpForASaveThatDiedWithItsWriter) {
  expect_saved_after([&] { hangs_.die(); }, {8, 12, 18, kSteps});
}

TEST_F(HeirTest, SavesNothingAgainThatWasPublished) {
  expect_saved_after(
      [&] {
        hangs_.let_go();
        wait_until_saved(6);
      },
      {6, 12, 18, kSteps});
}

TEST_F(HeirTest, KnowsItsOwnSaves) {
  Town town(3);
  auto ends = train(town, 3,
                    {.death = Death{2, 8},
                     .saving = saving(),
                     .before_step = [&](std::int32_t worker, std::int64_t step) {
                       if (worker == 0 && step == 11) hangs_.let_go();
                     }});
  ends.erase(2);
  for (const auto& [worker, end] : ends) expect_well(end, undisturbed());
  EXPECT_EQ(saved(), (Steps{6, 12, 18, kSteps}));
}

}  // namespace
}  // namespace muster::train
