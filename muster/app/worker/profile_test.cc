#include "muster/app/worker/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>

#include "muster/job/load.h"
#include "muster/plan/model_profile.h"
#include "muster/testing/memory_files.h"

namespace muster::app {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kProfiledJob = R"(
name: small
model: {type: gpt, n_embd: 16, n_layer: 2, n_head: 2}
data: {type: text, path: /text, context_length: 16}
training: {max_steps: 4, global_batch_size: 16}
workers: {count: 2}
)";

Result<plan::ModelProfile> profiled(const ProfileOptions& options,
                                    std::vector<std::string> sets = {}) {
  testing::MemoryFiles disk;
  EXPECT_TRUE(disk.create_folders("/proc/self"));
  EXPECT_TRUE(write_atomically(disk, "/proc/self/status", "VmHWM:  1000 kB\nVmRSS:  1200 kB\n"));
  EXPECT_TRUE(write_atomically(disk, "/text", std::string(2000, 'a')));
  MUSTER_ASSIGN(const job::Job job,
                job::parse_job(kProfiledJob, "job.yaml", {.sets = std::move(sets)}));
  MUSTER_ASSIGN(const std::string text, profile_training(disk, job.spec, options, no_components()));
  return plan::profile_from_json(text);
}

ProfileOptions only_counting() {
  return {.goes_on = [](const std::string&) { return false; }};
}

// What follows from shapes is the same whether anything is run or not.
TEST(ProfileTraining, CountsWhatItMeasures) {
  const auto counted = profiled(only_counting());
  const auto measured = profiled({});
  ASSERT_TRUE(counted) << counted.error().message;
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_TRUE(counted->counted());
  EXPECT_FALSE(measured->counted()) << measured->not_measured;
  EXPECT_EQ(counted->process_bytes, 1000u << 10);
  EXPECT_EQ(measured->process_bytes, 1200u << 10) << "with what its blocks leave behind";
  EXPECT_EQ(counted->state_bytes(), measured->state_bytes());
  EXPECT_EQ(counted->state_bytes(), 3 * plan::kFloat * counted->parameters()) << "adamw has two";
  EXPECT_EQ(counted->shards_among(2)->weights.own, measured->shards_among(2)->weights.own);
  ASSERT_EQ(counted->cuts.size(), measured->cuts.size());
  for (std::size_t i = 0; i < counted->cuts.size(); ++i) {
    EXPECT_EQ(counted->cuts[i].whole, measured->cuts[i].whole) << i;
    EXPECT_EQ(counted->cuts[i].blocks.back().trained, measured->cuts[i].blocks.back().trained);
  }
}

// All but embeddings and norms, by words of 16 bits.
TEST(ProfileTraining, CountsWeightsOfProductsAsTheyTravel) {
  const auto full = profiled(only_counting());
  const auto narrow = profiled(only_counting(), {"training.precision=bf16"});
  ASSERT_TRUE(full) << full.error().message;
  ASSERT_TRUE(narrow) << narrow.error().message;
  const auto bytes = [](const plan::ModelProfile& profile) {
    const auto& each = profile.shards_among(2)->weight_bytes;
    return std::accumulate(each.begin(), each.end(), std::uint64_t{0});
  };
  const plan::ShardedBuckets& weights = full->shards_among(2)->weights;
  EXPECT_EQ(weights.own, narrow->shards_among(2)->weights.own);
  EXPECT_EQ(bytes(*full), static_cast<std::uint64_t>(weights.own_elements()) * plan::kFloat);
  EXPECT_LT(bytes(*narrow), bytes(*full));
  EXPECT_GT(bytes(*narrow), bytes(*full) / 2);
}

TEST(ProfileTraining, TellsWhatItCountsBeforeItMeasures) {
  std::optional<plan::ModelProfile> counted;
  const auto measured = profiled({.goes_on = [&](const std::string& line) {
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    if (const auto told = plan::profile_from_json(line)) counted = *told;
    return true;
  }});
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_FALSE(measured->counted()) << measured->not_measured;
  ASSERT_TRUE(counted);
  EXPECT_EQ(counted->not_measured, "nothing was run");
  EXPECT_EQ(counted->parameters(), measured->parameters());
}

TEST(ProfileTraining, FindsTheGradientsThatBackwardHasInHand) {
  const auto measured = profiled({});
  ASSERT_TRUE(measured) << measured.error().message;
  const plan::PassProfile& pass = measured->passes.front();
  for (std::size_t b = 0; b < pass.blocks.size(); ++b) {
    EXPECT_GT(pass.blocks[b].activation_bytes, 0u) << b;
    EXPECT_GT(pass.blocks[b].backward_bytes, 0u) << b;
  }
}

// Each of two workers has half of the experts and all that is none's.
TEST(ProfileTraining, FindsWhatDealtExpertsLeave) {
  const auto measured = profiled({}, {"model.type=moe", "model.num_experts=4"});
  ASSERT_TRUE(measured) << measured.error().message;
  const auto dealt = std::ranges::find(measured->cuts, 2, &plan::CutProfile::holders);
  ASSERT_NE(dealt, measured->cuts.end());
  EXPECT_EQ(dealt->ranks, 1);
  std::int64_t whole = 0, held = 0;
  for (const plan::BlockProfile& block : dealt->blocks) {
    whole += block.trained_elements();
    held += block.held_elements();
  }
  EXPECT_EQ(2 * (held - whole) + whole, measured->trained_parameters());
  const auto meets = [](const plan::BlockPass& pass) { return !pass.forward_messages.empty(); };
  EXPECT_TRUE(std::ranges::any_of(dealt->pass.blocks, meets));
}

// Of four workers each has half of half of the experts, but for what is not cut: it exchanges rows
// with one of them and makes sums with another one.
TEST(ProfileTraining, FindsWhatDealtExpertsInPartsLeave) {
  const auto measured = profiled({}, {"model.type=moe", "model.num_experts=4", "workers.count=4"});
  ASSERT_TRUE(measured) << measured.error().message;
  const auto found = [&](std::int32_t ranks, std::int32_t holders) -> const plan::CutProfile& {
    const auto cut = std::ranges::find_if(measured->cuts, [&](const plan::CutProfile& known) {
      return known.ranks == ranks && known.holders == holders && !known.sequence &&
             !known.attention;
    });
    EXPECT_NE(cut, measured->cuts.end()) << ranks << " ranks, " << holders << " holders";
    return *cut;
  };
  const auto experts = [](const plan::CutProfile& cut) {
    std::int64_t elements = 0;
    for (const plan::BlockProfile& block : cut.blocks)
      elements += block.held_elements() - block.trained_elements();
    return elements;
  };
  const plan::CutProfile &dealt = found(1, 2), &both = found(2, 2), &cut = found(2, 1);
  EXPECT_LT(experts(both), experts(dealt) * 3 / 5);
  EXPECT_GE(experts(both), experts(dealt) / 2);
  EXPECT_EQ(experts(cut), 0) << "all are on each";
  EXPECT_LT(both.whole, dealt.whole);
  const auto tells = [](const plan::CutProfile& of, plan::RankMessage::Kind kind) {
    return std::ranges::any_of(of.pass.blocks, [&](const plan::BlockPass& pass) {
      return std::ranges::find(pass.forward_messages, kind, &plan::RankMessage::kind) !=
             pass.forward_messages.end();
    });
  };
  using enum plan::RankMessage::Kind;
  EXPECT_TRUE(tells(both, kExchange) && tells(both, kSum));
  EXPECT_TRUE(tells(dealt, kExchange) && !tells(dealt, kSum));
  EXPECT_TRUE(!tells(cut, kExchange) && tells(cut, kSum));
}

TEST(ProfileTraining, RunsNothingForWhichThereIsNoRoom) {
  const auto found = profiled({.memory = (1000u << 10) + 64});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->not_measured, HasSubstr("and more, and there are 64 B"));
  EXPECT_EQ(found->passes.front().blocks.front().activation_bytes, 0u);
}

// Petabytes: even one tensor could not be had.
TEST(ProfileTraining, CountsModelsThatNobodyCouldBuild) {
  const auto found = profiled(only_counting(), {"model.n_embd=10000000", "model.n_layer=4"});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_GT(found->parameters(), std::int64_t{1} << 50);
  EXPECT_EQ(found->state_bytes(), 3 * plan::kFloat * found->parameters());
}

}  // namespace
}  // namespace muster::app
