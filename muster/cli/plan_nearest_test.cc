#include "muster/cli/plan_nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "muster/base/text_width.h"
#include "muster/plan/testing/profiles.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Passes of 4 samples, which are the job's, and of 2 in half the memory.
plan::ModelProfile profile_of_two_sizes() {
  plan::ModelProfile profile = plan::testing::blocks_alike(8);
  plan::PassProfile half = profile.passes.front();
  half.samples = 2;
  for (plan::BlockPass& block : half.blocks) block.activation_bytes /= 2;
  profile.passes.push_back(half);
  return profile;
}

constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();

// data, sharded, sharded of smaller micro-batches: on so many workers of four lanes each.
JobPlan planned(std::int32_t workers, std::uint64_t memory = kAll, std::int32_t lanes = 4) {
  JobPlan plan{
      .job = {}, .hardware = plan::testing::free_hardware(), .profile = profile_of_two_sizes()};
  plan.hardware.memory = memory;
  plan.job.name = "tiny";
  plan.job.workers.count = workers;
  plan.job.training.virtual_workers = 8;
  plan.job.training.global_batch_size = 32;
  plan.job.training.micro_batch_size = 4;
  const auto add = [&](const std::string& spread, std::int64_t micro_batch) {
    JobWay job{.spread = spread, .micro_batch = micro_batch, .recompute = {}, .changes = {}};
    job.changes.flags = {{"test", "strategy.type", spread}};
    if (micro_batch != 4)
      job.changes.flags.push_back(
          {"test", "training.micro_batch_size", std::to_string(micro_batch)});
    plan.ways.push_back(job);
    plan::Way way = plan::testing::way(workers);
    way.spread = spread == "data" ? plan::Spread::kData : plan::Spread::kSharded;
    way.micro_batch = micro_batch;
    way.lanes = lanes;
    plan.candidates.push_back({.name = spread, .way = way, .same_bits = micro_batch == 4});
  };
  add("data", 4);
  add("sharded", 4);
  add("sharded", 2);
  plan.ranking = plan::rank_ways(plan.profile, plan.candidates, plan.hardware);
  return plan;
}

// What the way that needs least of those with these bits takes.
std::uint64_t least(std::int32_t workers, bool same_bits, std::int32_t lanes = 4) {
  const JobPlan plan = planned(workers, kAll, lanes);
  std::uint64_t bytes = kAll;
  for (const plan::RankedWay& way : plan.ranking)
    if (plan.candidates[way.candidate].same_bits == same_bits)
      bytes = std::min(bytes, way.estimate->memory.total());
  return bytes;
}

std::optional<NearestWay> nearest_within(std::uint64_t memory) {
  return nearest_way(planned(2, memory),
                     [&](std::int32_t workers) { return planned(workers, memory); });
}

// What is told of it: the options.
std::string told(std::uint64_t memory) {
  JobPlan plan = planned(2, memory);
  plan.nearest = nearest_within(memory);
  return nlohmann::json::parse(plan_json(plan))["nearest"]["options"];
}

TEST(NearestWay, FewerLanesLeaveTheBits) {
  const std::uint64_t memory = least(2, true) - 1;
  ASSERT_GE(memory, least(2, true, 2));
  ASSERT_GE(memory, least(2, false)) << "other bits would do too";
  EXPECT_EQ(told(memory), "--set strategy.type=sharded --set training.lanes=2");
  EXPECT_EQ(told(least(2, true, 1)), "--set strategy.type=sharded --set training.lanes=1");
}

TEST(NearestWay, OtherBitsComeBeforeOtherWorkers) {
  const std::uint64_t memory = least(2, true, 1) - 1;
  ASSERT_GE(memory, least(2, false, 1));
  ASSERT_GE(memory, least(4, true, 1));
  EXPECT_EQ(told(memory),
            "--set strategy.type=sharded --set training.micro_batch_size=2 --set training.lanes=1");
}

TEST(NearestWay, OtherWorkersAreTakenByTheirDistance) {
  std::vector<std::int32_t> asked;
  const std::uint64_t memory = least(8, true, 1);
  ASSERT_LT(memory, least(4, true, 1));
  const auto found = nearest_way(planned(2, 1), [&](std::int32_t workers) {
    asked.push_back(workers);
    // Of four the job knows nothing; only eight have the memory.
    return workers == 4 ? std::nullopt : std::optional(planned(workers, workers == 8 ? memory : 1));
  });
  EXPECT_EQ(asked, (std::vector<std::int32_t>{1, 4, 8}));
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->way().fits);
  JobPlan plan = planned(2, 1);
  plan.nearest = found;
  EXPECT_THAT(nearest_text(plan),
              HasSubstr("none of them fits in memory\nthe nearest that does ("));
  EXPECT_THAT(nearest_text(plan), HasSubstr("): --workers 8 --set strategy.type=sharded"));
}

TEST(NearestWay, WhereNoneFitsWhatNeedsLeastIsTold) {
  const auto found = nearest_within(1);
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->way().fits);
  EXPECT_EQ(found->way().estimate->memory.total(),
            std::min({least(8, true, 1), least(1, false, 1), least(8, false, 1)}));
  JobPlan plan = planned(2, 1);
  plan.nearest = found;
  EXPECT_THAT(nearest_text(plan), HasSubstr("\nwhat needs least ("));
  EXPECT_THAT(nearest_text(plan), HasSubstr(" a worker, which may take 1 B): --workers "));
  EXPECT_THAT(plan_text(plan, false), HasSubstr(nearest_text(plan)));
  EXPECT_THAT(nearest_text(plan), HasSubstr("none of them fits in memory, nor does any near them"));
  JobPlan least_of_all = *found->plan;
  least_of_all.ranking[found->place].estimate->memory.process = 1;
  plan.nearest->plan = std::make_shared<const JobPlan>(std::move(least_of_all));
  EXPECT_THAT(nearest_text(plan), HasSubstr("fits in memory, nor can any: libtorch alone takes "));
}

TEST(NearestWay, IsNoneWhereThereIsNoWay) {
  JobPlan plan = planned(2);
  for (plan::Candidate& candidate : plan.candidates)
    candidate.way = fail(ErrorCode::kInvalid, "the job says no");
  plan.ranking = plan::rank_ways(plan.profile, plan.candidates, plan.hardware);
  EXPECT_FALSE(nearest_way(plan, [](std::int32_t) { return std::optional<JobPlan>(); }));
  EXPECT_EQ(nearest_text(plan), "none of them fits in memory");
  EXPECT_TRUE(nlohmann::json::parse(plan_json(plan))["nearest"].is_null());
}

// Fast mode sums what a lane computes together.
TEST(NearestWay, SaysWhereBitsBecomeOthers) {
  JobPlan plan = planned(2, least(2, true) - 1);
  plan.job.training.mode = job::TrainingMode::kFast;
  plan.nearest = nearest_way(plan, [](std::int32_t) { return std::optional<JobPlan>(); });
  EXPECT_THAT(nearest_text(plan), HasSubstr("; other bits): --set "));
  EXPECT_FALSE(nlohmann::json::parse(plan_json(plan))["nearest"]["same_bits"]);
}

// A job that says how many micro-batches a slice has would contradict another size of them.
TEST(NearestWay, OtherMicroBatchesComeWithTheirNumber) {
  JobPlan plan = planned(2, least(2, true, 1) - 1, 1);
  plan.says_accumulation = true;
  plan.nearest = nearest_way(plan, [](std::int32_t) { return std::optional<JobPlan>(); });
  EXPECT_THAT(nearest_text(plan), HasSubstr("--set training.micro_batch_size=2 --set "
                                            "training.gradient_accumulation_steps=2"));
}

TEST(PlanText, CountsParameters) {
  JobPlan plan = planned(2);
  EXPECT_THAT(plan_text(plan, false), HasSubstr("\nparameters: 8.19 k\n"));
  plan.profile.blocks[0].frozen = 1000;
  EXPECT_THAT(plan_text(plan, false), HasSubstr("\nparameters: 9.19 k, 8.19 k of them trained\n"));
  const auto told = nlohmann::json::parse(plan_json(plan));
  EXPECT_EQ(told["parameters"], 9192);
  EXPECT_EQ(told["trained_parameters"], 8192);
}

TEST(PlanText, SaysWhatWasOnlyCounted) {
  JobPlan plan = planned(2);
  EXPECT_THAT(plan_text(plan, false), Not(HasSubstr("counted")));
  EXPECT_TRUE(nlohmann::json::parse(plan_json(plan))["counted"].is_null());
  plan.profile.not_measured = "nothing was run";
  plan.hardware.memory = 1;
  plan.ranking = plan::rank_ways(plan.profile, plan.candidates, plan.hardware);
  plan.nearest = nearest_way(plan, [](std::int32_t) { return std::optional<JobPlan>(); });
  EXPECT_THAT(plan_text(plan, false), HasSubstr("\ncounted, not measured: nothing was run\n"));
  EXPECT_THAT(nearest_text(plan), HasSubstr("what needs least (at least "));
  const auto told = nlohmann::json::parse(plan_json(plan));
  EXPECT_EQ(told["counted"], "nothing was run");
  for (const auto& way : told["ranking"]) {
    EXPECT_TRUE(way.contains("memory"));
    EXPECT_FALSE(way.contains("step_s"));
  }
}

// With all numbers as wide as they get.
TEST(PlanText, TableOfMemoryFitsATerminal) {
  constexpr std::uint64_t kWide = (std::uint64_t{1} << 30) - (std::uint64_t{1} << 19);
  JobPlan plan = planned(2);
  plan.job.name = "a name of some letters";
  plan.hardware.memory = plan.profile.process_bytes = kWide;
  for (plan::RankedWay& way : plan.ranking)
    way.estimate->memory = {kWide, kWide, kWide, kWide, kWide, kWide, kWide};
  std::istringstream text(plan_text(plan, true));
  std::size_t seen = 0;
  bool memory = false, head = true;
  for (std::string line; std::getline(text, line);) {
    if (line.empty()) memory = head = false;
    memory = memory || line.starts_with("memory of a worker");
    if (!memory && !head) continue;
    EXPECT_LE(display_width(line), 80u) << line;
    seen += memory;
  }
  EXPECT_EQ(seen, 3 + plan.ranking.size()) << "with what a star means";
}

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, display_width(line));
  return widest;
}

TEST(PlanText, FitsATerminal) {
  JobPlan plan = planned(8);
  for (JobWay& way : plan.ways) {
    way.spread += ", replicate 2, stages 2 (interleaved), shard 2";
    way.recompute = "some";
    for (const std::string axis : {"replicate", "shard", "stages"})
      way.changes.flags.push_back({"test", "strategy.mesh_of_the_axis_" + axis, "a b"});
  }
  for (plan::RankedWay& way : plan.ranking)
    way.reason = "1.15× the time of the best: 13.05 ms more waiting for other stages, and so on";
  const std::string text = plan_text(plan, true, 80);
  EXPECT_GT(widest_line(plan_text(plan, true)), 90u);
  EXPECT_LE(widest_line(text), 80u) << text;
  EXPECT_THAT(text, HasSubstr("\ntrain so:\n  --set strategy.type="));
  EXPECT_THAT(text, HasSubstr("\" \\\n  --set \"strategy.mesh_of_the_axis_"));
  EXPECT_EQ(plan_text(plan, true, 1000), plan_text(plan, true));
}

TEST(NearestWay, FitsATerminal) {
  JobPlan plan = planned(2, 1);
  plan.nearest = nearest_within(1);
  const std::string text = nearest_text(plan, 60);
  EXPECT_GT(widest_line(nearest_text(plan)), 90u);
  EXPECT_LE(widest_line(text), 60u) << text;
  EXPECT_THAT(text, HasSubstr("):\n  --"));
}

}  // namespace
}  // namespace muster::cli
