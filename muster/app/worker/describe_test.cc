#include "muster/app/worker/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/job/load.h"
#include "muster/testing/memory_files.h"

namespace muster::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kJob = R"(
name: small
model: {type: gpt, n_embd: 16, n_layer: 2, n_head: 2}
data: {type: text, path: /text, context_length: 16}
training: {max_steps: 4, global_batch_size: 8}
)";

// What is told on a host of that memory.
Result<std::string> told(const std::string& memory, std::vector<std::string> sets = {}) {
  testing::MemoryFiles disk;
  EXPECT_TRUE(disk.create_folders("/proc"));
  EXPECT_TRUE(write_atomically(disk, "/proc/meminfo", "MemTotal:  " + memory + " kB\n"));
  EXPECT_TRUE(write_atomically(disk, "/text", std::string(2000, 'a')));
  MUSTER_ASSIGN(const job::Job job, job::parse_job(kJob, "job.yaml", {.sets = std::move(sets)}));
  return describe_training(disk, job.spec, no_components());
}

TEST(DescribeTraining, SaysWhatAModelThatFitsNeeds) {
  const auto text = told("1000000");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_THAT(*text, AllOf(HasSubstr("weights 42.8 KiB, gradients at least 42.8 KiB"),
                           HasSubstr("activations ")));
}

TEST(DescribeTraining, CountsWhatAStageKeepsToRollBack) {
  std::vector<std::string> sets = {"workers.count=2", "strategy.type=pipeline",
                                   "strategy.schedule=zb_h1", "strategy.blocks=[2, 2]"};
  const auto waits = told("1000000", sets);
  ASSERT_TRUE(waits) << waits.error().message;
  EXPECT_THAT(*waits, Not(HasSubstr("roll back")));
  sets.emplace_back("strategy.optimizer_first=true");
  const auto text = told("1000000", sets);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_THAT(*text, HasSubstr(", kept to roll back "));
}

TEST(DescribeTraining, AModelLargerThanTheMemoryIsNotTriedAndStillToldOf) {
  const auto text = told("40");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(text.error().message,
              AllOf(HasSubstr("larger than the memory of this host, 40.0 KiB"),
                    HasSubstr("weights 42.8 KiB, gradients at least 42.8 KiB, optimizer 85.5")));
}

TEST(DescribeTraining, SoIsOneOfWhichNotEvenATensorCanBeHad) {
  const auto text = told("1000000", {"model.n_embd=1000000", "model.n_layer=1000"});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(text.error().message, HasSubstr("12000013274000000 parameters (42.6 PiB)"));
}

}  // namespace
}  // namespace muster::app
