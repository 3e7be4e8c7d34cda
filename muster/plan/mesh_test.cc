// Products of strategies: what their estimates have of each.
#include <gtest/gtest.h>

#include "muster/plan/estimate.h"
#include "muster/plan/testing/ways.h"

namespace muster::plan {
namespace {

using std::chrono::milliseconds;
using testing::blocks_alike;
using testing::context;
using testing::expert;
using testing::free_hardware;
using testing::in_parts;
using testing::in_shards;
using testing::in_shared_sequences;
using testing::in_stage;
using testing::pipeline;
using testing::price;
using testing::tensor;
using testing::way;
using testing::with_experts;
using testing::with_experts_in_parts;

// The optimizer's state is shared out among those that hold the same; the sums are those of
// replicas.
TEST(EstimatedMesh, ShardsMultiplyWithWhatElseIsCut) {
  const auto shared = [](Way way) {
    way.shards = 2;
    return way;
  };
  const auto check = [&](const Way& plain, const ModelProfile& profile) {
    const Estimate before = price(plain, profile), found = price(shared(plain), profile);
    EXPECT_EQ(found.memory.optimizer, before.memory.optimizer / 2);
    EXPECT_EQ(found.memory.weights, before.memory.weights);
    EXPECT_EQ(found.memory.activations, before.memory.activations);
    EXPECT_EQ(found.bytes_on_wire, before.bytes_on_wire);
    EXPECT_EQ(found.time.computing, before.time.computing);
  };
  check(way(4), blocks_alike(4));
  check(pipeline(4, 2), blocks_alike(4));
  check(tensor(4), in_parts());
  check(context(4, Attention::kRing), in_shared_sequences());
  check(expert(4), with_experts());
  Way in_parts_too = expert(8);
  in_parts_too.tensor = 2;
  check(in_parts_too, with_experts_in_parts());
  Way odd = pipeline(6, 2);
  odd.shards = 2;
  const auto refused = estimate(blocks_alike(4), odd, free_hardware());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("3 replicas are no whole number of 2 shards"),
            std::string::npos);
}

// What is no expert's is summed over all workers, an expert's over those that hold it, each of all
// slices of its replica.
TEST(EstimatedMesh, DealtExpertsAreHeldByPart) {
  const ModelProfile profile = with_experts();
  const Estimate whole = price(way(2), profile), found = price(expert(2), profile);
  EXPECT_EQ(found.time.total(), whole.time.total());
  EXPECT_EQ(found.memory.weights, whole.memory.weights * 3 / 4);
  EXPECT_EQ(found.memory.optimizer, whole.memory.optimizer * 3 / 4);
  EXPECT_EQ(found.memory.activations, whole.memory.activations);
  const std::uint64_t gradients =
      3 * testing::kElements * kFloat + 2 * 16 * kFloat;  // first slots fill lines
  const std::uint64_t rows = 4 * 2 * 4 * 3000;            // of 4 slices there and back in 4 blocks
  EXPECT_EQ(found.bytes_on_wire, gradients + rows);
  EXPECT_LT(price(expert(4), profile).sent, price(way(4), profile).sent + rows / 2);
  Way saves = expert(2);
  saves.saves = Saves::kBeside;
  const std::uint64_t others = profile.state_bytes() / 4;
  EXPECT_EQ(price(saves, profile).memory.checkpoint, profile.state_bytes() + others);
  const auto refused = estimate(blocks_alike(4), expert(2), free_hardware());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("not measured with experts in 2 parts"),
            std::string::npos);
}

// The workers of a slice sum what their parts find, and each exchanges rows with those that have
// the same part of other experts.
TEST(EstimatedMesh, DealtExpertsInParts) {
  const ModelProfile profile = with_experts_in_parts();
  Way both = expert(4);
  both.tensor = 2;
  const Estimate dealt = price(expert(2), profile), found = price(both, profile);
  EXPECT_EQ(found.time.total(), dealt.time.total() / 2);
  EXPECT_EQ(found.memory.weights, dealt.memory.weights / 2);
  EXPECT_EQ(found.memory.optimizer, dealt.memory.optimizer / 2);
  EXPECT_LT(found.memory.activations, dealt.memory.activations * 3 / 5);
  const std::uint64_t gradients = 3 * testing::kElements / 2 * kFloat;
  const std::uint64_t notes = 2 * 16 * kFloat;               // first slots fill lines
  const std::uint64_t messages = 4 * 2 * 4 * (3000 + 4000);  // of 4 slices in 4 blocks
  EXPECT_EQ(found.bytes_on_wire, gradients + notes + messages);

  // Each exchange is with one other worker, each sum among two.
  Hardware slow = free_hardware();
  slow.link = {milliseconds(1), 1e12};
  const auto waits = [&](const Way& way) {
    return estimate(profile, way, slow).value().time.communication;
  };
  EXPECT_GT(waits(both), waits(expert(2)));
  EXPECT_FALSE(estimate(profile, tensor(2), slow)) << "cut, and not dealt";

  Way saves = both;
  saves.saves = Saves::kBeside;
  const std::uint64_t here = 8 * (kFloat + 2 * sizeof(float));  // what is not cut, of all that is
  const std::uint64_t others = profile.state_bytes() - here;
  EXPECT_EQ(price(saves, profile).memory.checkpoint, profile.state_bytes() + others);

  Way quarters = both;
  quarters.tensor = 4;
  quarters.workers = 8;
  const auto refused = estimate(profile, quarters, free_hardware());
  ASSERT_FALSE(refused);
  EXPECT_NE(
      refused.error().message.find("not measured with tensors in 4 parts and experts in 2 parts"),
      std::string::npos)
      << refused.error().message;
}

// With V slices, R replicas of S shards: within a replica the traffic of its own slices, then their
// sum among the copies of a shard, and the updated shard to the others.
TEST(EstimatedMesh, ReplicasOfShardsOfGradients) {
  const std::uint64_t whole = 4 * testing::kElements * kFloat;
  const std::uint64_t notes = 2 * 16 * kFloat;  // of two slices that are no neighbours
  Way way = in_stage(2, 4);
  way.shards = 2;
  const Estimate found = price(way, in_shards(2));
  const std::uint64_t own = whole / 2, slices = 2;
  EXPECT_EQ(found.memory.optimizer, price(in_stage(2, 2), in_shards(2)).memory.optimizer);
  EXPECT_EQ(found.bytes_on_wire, slices * own + own + own + notes);
}

// Each stage's ranks hold half of its tensors, and meet in every pass of its blocks.
TEST(EstimatedMesh, StagesOfCutTensors) {
  const ModelProfile profile = in_parts();
  Way both = pipeline(4, 2);
  both.tensor = 2;
  const Estimate found = price(both, profile), stages = price(pipeline(2, 2), profile);
  EXPECT_EQ(found.memory.weights, stages.memory.weights / 2);
  EXPECT_EQ(found.memory.optimizer, stages.memory.optimizer / 2);
  EXPECT_EQ(found.memory.activations, stages.memory.activations / 2);
  EXPECT_EQ(found.time.total(), stages.time.total() / 2);
  const std::uint64_t sums = 8 * 2 * 2 * 4000;  // of 8 slices in two blocks; the loss is elsewhere
  EXPECT_EQ(found.bytes_on_wire, sums + 2 * testing::kElements / 2 * kFloat + 16 * kFloat);
  Hardware slow = free_hardware();
  slow.link = {milliseconds(1), 1e9};
  EXPECT_GT(estimate(profile, both, slow).value().time.total(),
            estimate(profile, pipeline(2, 2), slow).value().time.total() / 2);
  both.context = 2;
  both.workers = 8;
  const auto refused = estimate(profile, both, free_hardware());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("not measured together"), std::string::npos);
}

// The workers of a stage hold the experts of its blocks between them, each with slices of its own:
// as many micro-batches as with two replicas of stages.
TEST(EstimatedMesh, StagesOfDealtExperts) {
  const ModelProfile profile = with_experts();
  Way both = pipeline(4, 2);
  both.expert = 2;
  const Estimate found = price(both, profile), stages = price(pipeline(4, 2), profile);
  EXPECT_EQ(found.memory.weights, stages.memory.weights * 3 / 4);
  EXPECT_EQ(found.memory.optimizer, stages.memory.optimizer * 3 / 4);
  EXPECT_EQ(found.memory.activations, stages.memory.activations);
  EXPECT_EQ(found.time.total(), stages.time.total());
  const std::uint64_t gradients = 2 * (2 + 1) * testing::kElements / 4 * kFloat;
  const std::uint64_t notes = 2 * 16 * kFloat;  // first slots fill lines
  const std::uint64_t rows = 4 * 2 * 2 * 3000;  // of 4 slices there and back in two blocks
  EXPECT_EQ(found.bytes_on_wire, gradients + notes + rows);

  Hardware slow = free_hardware();
  slow.link = {milliseconds(1), 1e12};
  const auto total = [&](const Way& way) {
    return estimate(profile, way, slow).value().time.total();
  };
  EXPECT_GT(total(both), total(pipeline(4, 2))) << "each pass waits for the rows of others";

  // Two replicas of such stages sum their experts as well.
  Way twice = both;
  twice.workers = 8;
  EXPECT_GT(price(twice, profile).sent, price(both, profile).sent / 2);
  Way in_parts_too = both;
  in_parts_too.tensor = 2;
  in_parts_too.workers = 8;
  EXPECT_EQ(price(in_parts_too, with_experts_in_parts()).memory.weights, found.memory.weights / 2);
}

}  // namespace
}  // namespace muster::plan
