#include "muster/cli/job_spreads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "muster/job/mesh_axes.h"

namespace muster::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::Pair;

job::JobSpec job_of(job::ModelType model, std::int64_t workers) {
  job::JobSpec job;
  job.model.type = model;
  const bool reads = model != job::ModelType::kMlp && model != job::ModelType::kResnet;
  job.data.type = reads ? job::DataType::kText : job::DataType::kIdx;
  job.workers.count = workers;
  return job;
}

std::vector<std::string> names_of(const job::JobSpec& job) {
  std::vector<std::string> names;
  for (const JobSpread& spread : spreads_of(job)) names.push_back(spread.name);
  return names;
}

TEST(JobSpreads, ProductsAreOfAllWorkersAndNoOtherStrategyAlone) {
  for (const std::int64_t workers : {1, 2, 3, 4, 6, 8, 12})
    for (const JobSpread& spread : spreads_of(job_of(job::ModelType::kMoe, workers))) {
      std::int64_t product = 1, axes = 0;
      for (const auto& [field, value] : spread.values)
        if (field.starts_with("strategy.mesh.")) {
          product *= std::stoll(value);
          ++axes;
        }
      EXPECT_EQ(spread.product, axes > 0) << spread.name;
      if (!spread.product) continue;
      EXPECT_EQ(product, workers) << spread.name;
      EXPECT_GE(axes, 2) << spread.name;
      EXPECT_THAT(spread.values, Contains(Pair("strategy.type", "hybrid"))) << spread.name;
    }
}

TEST(JobSpreads, HaveEachNameOnce) {
  std::vector<std::string> names = names_of(job_of(job::ModelType::kMoe, 8));
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

TEST(JobSpreads, NameTheirAxes) {
  const auto names = names_of(job_of(job::ModelType::kGpt, 4));
  EXPECT_THAT(names, IsSupersetOf({"data", "sharded, stage 3", "replicate 2 × shard 2",
                                   "replicate 2 × shard 2, stage 3", "pipeline 2 × shard 2, 1f1b",
                                   "pipeline 2 × tensor 2, zb_h1, sequences", "shard 2 × tensor 2",
                                   "shard 2 × context 2, ring"}));
  EXPECT_THAT(names, Not(Contains(HasSubstr("expert"))));
  for (const std::string& name : names_of(job_of(job::ModelType::kGpt, 2)))
    EXPECT_THAT(name, Not(HasSubstr("×")));
}

TEST(JobSpreads, FollowFromModelAndData) {
  for (const auto model : {job::ModelType::kMlp, job::ModelType::kResnet}) {
    const auto of_images = names_of(job_of(model, 4));
    EXPECT_THAT(of_images, IsSupersetOf({"tensor, 4 parts", "shard 2 × tensor 2"}));
    EXPECT_THAT(of_images, Not(Contains(HasSubstr("sequences"))));
    EXPECT_THAT(of_images, Not(Contains(HasSubstr("context"))));
  }
  EXPECT_THAT(names_of(job_of(job::ModelType::kMoe, 4)),
              IsSupersetOf({"expert, 2 parts", "expert, 4 parts", "shard 2 × expert 2",
                            "expert 2 × tensor 2", "pipeline 2 × expert 2, zb_h1"}));
  EXPECT_THAT(names_of(job_of(job::ModelType::kMoe, 8)),
              IsSupersetOf({"replicate 2 × expert 2 × tensor 2", "shard 2 × expert 2 × tensor 2",
                            "expert 4 × tensor 2", "expert 2 × tensor 4",
                            "pipeline 2 × shard 2 × expert 2, 1f1b",
                            "pipeline 2 × expert 2 × tensor 2, 1f1b, sequences"}));
}

TEST(JobSpreads, HaveThePipelineThatIsWritten) {
  job::JobSpec job = job_of(job::ModelType::kGpt, 4);
  const std::string name = "pipeline 2 × shard 2, interleaved";
  EXPECT_THAT(names_of(job), Not(Contains(name)));
  job.strategy.type = job::StrategyType::kHybrid;
  job.strategy.mesh.pipeline = job.strategy.mesh.shard = 2;
  job.strategy.schedule = job::PipelineSchedule::kInterleaved;
  job.strategy.chunks_per_stage = 3;
  job.strategy.optimizer_first = true;
  job.strategy.blocks = {1, 2, 3, 4, 5, 6};
  const auto spreads = spreads_of(job);
  const auto found = std::ranges::find(spreads, name, &JobSpread::name);
  ASSERT_NE(found, spreads.end());
  EXPECT_THAT(found->values, IsSupersetOf({Pair("strategy.chunks_per_stage", "3"),
                                           Pair("strategy.optimizer_first", "true"),
                                           Pair("strategy.blocks", "[1, 2, 3, 4, 5, 6]")}));
}

}  // namespace
}  // namespace muster::cli
