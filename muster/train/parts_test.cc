// Ranks that have the same part of a training hold the same bits, under every strategy that has
// parts, and a bit of one of them that goes wrong is seen by the other one.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/parallel/expert/expert_parallel.h"
#include "muster/parallel/pipeline/pipeline.h"
#include "muster/parallel/sharded.h"
#include "muster/parallel/shared_slices.h"
#include "muster/parallel/testing/cut_training.h"
#include "muster/parallel/testing/zero_stage.h"
#include "muster/train/replicas.h"

namespace muster::train {
namespace {

namespace cut = parallel::cut;
using layout::Axis;
using MadeStrategy = Result<std::unique_ptr<parallel::ModelStrategy>>;

constexpr int kPartSteps = 3;
constexpr std::int32_t kPartRanks = 4;

const models::MoeSpec kDealtMixture{
    .body = models::GptSpec{.context = parallel::kContext, .width = 8, .layers = 1, .heads = 2},
    .experts = 4};

parallel::MeshPlace place_along(Axis axis, const comm::Group& group) {
  return cut::place_in(cut::along(axis, 2), group).value();
}

MadeStrategy make_pipeline(const cut::Recipe& recipe, const comm::Group& group) {
  parallel::PipelineOptions options;
  options.schedule.kind = layout::PipelineKind::k1F1B;
  options.schedule.stages = 2;
  options.schedule.chunks_per_stage = 1;
  options.chunks = *layout::partition_by_hand(std::vector<std::int32_t>{2, 3}, {5, 2});
  options.passes = {0, cut::kSeed};
  const auto whole = cut::model_of(recipe);
  return parallel::Pipeline::create(*whole, cut::kSeed, cut::optimizer_of(recipe), options,
                                    place_along(Axis::kPipeline, group), system_clock());
}

MadeStrategy make_tensors(const cut::Recipe& recipe, const comm::Group& group) {
  return parallel::SharedSlices::create(cut::model_of(recipe), {}, cut::optimizer_of(recipe),
                                        cut::options_of(recipe), place_along(Axis::kTensor, group),
                                        system_clock());
}

MadeStrategy make_experts(const cut::Recipe& recipe, const comm::Group& group) {
  return parallel::ExpertParallel::create(cut::model_of(recipe), cut::optimizer_of(recipe),
                                          cut::options_of(recipe),
                                          place_along(Axis::kExpert, group), system_clock());
}

MadeStrategy make_shards(const cut::Recipe& recipe, int zero_stage) {
  const auto options = parallel::in_stage(zero_stage, cut::options_of(recipe));
  auto model = cut::model_of(recipe);
  model->initialize(cut::kSeed);
  return parallel::Sharded::create(std::move(model), cut::optimizer_of(recipe), options,
                                   system_clock(), 2);
}

struct CutWay {
  cut::Recipe recipe;           // its name is that of the way
  bool has_whole_sums = false;  // of the gradients of what a rank holds
  std::function<MadeStrategy(const cut::Recipe& recipe, const comm::Group& group)> make;
};

std::vector<CutWay> cut_ways() {
  std::vector<CutWay> all{{{.name = "pipeline", .model = cut::gpt(3, true)}, true, make_pipeline},
                          {{.name = "tensors", .model = cut::gpt(1, false)}, true, make_tensors},
                          {{.name = "experts", .model = kDealtMixture}, false, make_experts}};
  for (const int stage : {1, 2, 3})
    all.push_back({{.name = "shards" + std::to_string(stage), .model = cut::mlp()},
                   false,
                   [stage](const cut::Recipe& recipe, const comm::Group&) {
                     return make_shards(recipe, stage);
                   }});
  return all;
}

std::vector<ReplicaReport> compare_parts(parallel::ModelStrategy& strategy,
                                         comm::Communicator& communicator) {
  const ReplicaReport mine{.sum = state_checksum(strategy),
                           .part = strategy.part_of(communicator.group().rank)};
  auto reports = exchange_reports(communicator, mine, {.label = "comparing replicas"});
  EXPECT_TRUE(reports);
  return reports ? *reports : std::vector<ReplicaReport>();
}

// After some steps, and once the last number of rank 2 is another one.
void train_and_compare(const CutWay& way, const std::shared_ptr<comm::Communicator>& communicator) {
  const Rank me = communicator->group().rank;
  const MadeStrategy strategy = way.make(way.recipe, communicator->group());
  ASSERT_TRUE(strategy) << strategy.error().message;
  const comm::LeafOwners owners = cut::owners_of(**strategy, kPartRanks);
  ASSERT_TRUE((*strategy)->enter(communicator, owners));
  const auto mine = parallel::slices_of(owners, (*strategy)->first_of_replica(me));
  cut::Outcome outcome;
  for (int step = 1; step <= kPartSteps; ++step)
    ASSERT_TRUE(cut::make_step(**strategy, way.recipe, mine, step, {}, outcome));
  const auto right = compare_parts(**strategy, *communicator);
  EXPECT_TRUE(are_equal(right));
  EXPECT_EQ(right.front().part, right[2].part);
  EXPECT_NE(right.front().sum.own, right[1].sum.own) << "these have different parts";
  if (me == Rank{2}) state_here(**strategy).back().tensor.bytes.back() ^= std::byte{4};
  const auto wrong = compare_parts(**strategy, *communicator);
  EXPECT_FALSE(are_equal(wrong));
  EXPECT_NE(wrong.front().sum, wrong[2].sum);
  EXPECT_EQ(wrong[1].sum, wrong[3].sum);
}

// Takes a step whose sums are compared, and found to differ.
void end_at_comparison(parallel::ModelStrategy& strategy, const cut::Recipe& recipe,
                       const std::vector<std::int32_t>& mine, comm::Communicator& communicator) {
  const StateChecksum before = state_checksum(strategy);
  ReplicaReport sums{.part = strategy.part_of(communicator.group().rank)};
  const auto refuse = [&](std::uint64_t checksum) -> Status {
    sums.sum.own = checksum;
    return fail(ErrorCode::kCorrupt, "gradients that differ");
  };
  EXPECT_FALSE(cut::try_step(strategy, recipe, mine, 1, {}, refuse));
  EXPECT_EQ(state_checksum(strategy), before) << "nothing is updated with them";
  const auto reports = exchange_reports(communicator, sums, {.label = "comparing gradients"});
  ASSERT_TRUE(reports);
  EXPECT_NE(reports->front().sum.own, 0U);
  EXPECT_TRUE(are_equal(*reports));
  EXPECT_NE(reports->front().sum.own, (*reports)[1].sum.own) << "these have different parts";
}

StateChecksum train_with_comparison(const CutWay& way, bool ends_at_first,
                                    const std::shared_ptr<comm::Communicator>& communicator) {
  const MadeStrategy strategy = way.make(way.recipe, communicator->group());
  EXPECT_TRUE(strategy) << strategy.error().message;
  if (!strategy) return {};
  const comm::LeafOwners owners = cut::owners_of(**strategy, kPartRanks);
  EXPECT_TRUE((*strategy)->enter(communicator, owners));
  const Rank first = (*strategy)->first_of_replica(communicator->group().rank);
  const auto mine = parallel::slices_of(owners, first);
  if (ends_at_first) end_at_comparison(**strategy, way.recipe, mine, *communicator);
  cut::Outcome outcome;
  for (int step = 1; step <= kPartSteps; ++step)
    EXPECT_TRUE(cut::make_step(**strategy, way.recipe, mine, step, {}, outcome));
  return state_checksum(**strategy);
}

// Before the update; the step is taken again in the same generation then.
TEST(Parts, HaveTheSameReducedGradients) {
  for (const CutWay& way : cut_ways()) {
    if (!way.has_whole_sums) continue;
    parallel::on_ranks(kPartRanks, [&](const auto& communicator) {
      SCOPED_TRACE(way.recipe.name);
      const StateChecksum undisturbed = train_with_comparison(way, false, communicator);
      EXPECT_EQ(train_with_comparison(way, true, communicator), undisturbed);
    });
  }
}

TEST(Parts, AreTheSameOnAllWhoHaveThem) {
  for (const CutWay& way : cut_ways()) {
    parallel::on_ranks(kPartRanks, [&](const auto& communicator) {
      SCOPED_TRACE(way.recipe.name);
      train_and_compare(way, communicator);
    });
  }
}

}  // namespace
}  // namespace muster::train
