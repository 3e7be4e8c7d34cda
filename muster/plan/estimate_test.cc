#include "muster/plan/estimate.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/plan/testing/ways.h"

namespace muster::plan {
namespace {

using std::chrono::milliseconds;
using testing::blocks_alike;
using testing::context;
using testing::free_hardware;
using testing::in_parts;
using testing::in_shards;
using testing::in_shared_sequences;
using testing::in_stage;
using testing::pipeline;
using testing::price;
using testing::sharded;
using testing::tensor;
using testing::way;

TEST(Profile, ComesBackFromItsJson) {
  ModelProfile profile = blocks_alike(3);
  profile.blocks[2].tied.push_back({.owner = 0, .name = "b0.weight", .elements = 64});
  profile.blocks[1].frozen = 5;
  profile.shards = {{.workers = 2,
                     .gradients = {{10}, {4}},
                     .by_block = {{8, 2}, {4, 1}},
                     .weights = {{8, 2}, {4, 1}},
                     .weight_bytes = {8, 4},
                     .needed = {{0}, {0, 1}, {1}}},
                    {.workers = 4}};
  CutProfile cut{.ranks = 2,
                 .sequence = true,
                 .blocks = profile.blocks,
                 .whole = 3,
                 .pass = profile.passes.front()};
  cut.pass.loss_messages = {{RankMessage::Kind::kGather, 8}};
  cut.pass.blocks[1].forward_messages = {{RankMessage::Kind::kSumOwn, 16}};
  profile.cuts = {cut, cut};
  profile.cuts.back().attention = Attention::kRing;
  cut.holders = 4;
  cut.blocks[1].experts = {3, 4};
  profile.cuts.push_back(cut);
  profile.passes.front().blocks[1].backward_bytes = 7;
  profile.not_measured = "nothing was run";
  const ModelProfile back = profile_from_json(to_json(profile).dump()).value();
  EXPECT_EQ(to_json(back), to_json(profile));
  EXPECT_EQ(back.blocks[2].tied.front().elements, 64);
  EXPECT_EQ(back.trained_parameters(), 3 * testing::kElements);
  EXPECT_EQ(back.parameters(), 3 * testing::kElements + 5) << "what is tied is another block's";
  EXPECT_EQ(back.shards_among(2)->needed, profile.shards.front().needed);
  EXPECT_EQ(back.shards_among(2)->weight_bytes, profile.shards.front().weight_bytes);
  EXPECT_EQ(back.shards_among(4)->workers, 4);
  EXPECT_EQ(back.shards_among(3), nullptr);
  EXPECT_EQ(back.cuts.front().pass.blocks[1].forward_messages.front().bytes, 16u);
  EXPECT_FALSE(back.cuts.front().attention);
  EXPECT_EQ(back.passes.front().blocks[1].backward_bytes, 7u);
  EXPECT_EQ(back.not_measured, "nothing was run");
  EXPECT_EQ(back.cuts[1].attention, Attention::kRing);
  EXPECT_EQ(back.cuts[1].holders, 1);
  EXPECT_EQ(back.cuts[2].holders, 4);
  EXPECT_EQ(back.cuts[2].blocks[1].held_elements(), testing::kElements + 7);
}

TEST(Profile, OfNoModelIsRefused) {
  for (const char* text : {"", "{}", "[1]", R"({"blocks": [], "passes": []})"})
    EXPECT_FALSE(profile_from_json(text)) << text;
  ModelProfile profile = blocks_alike(2);
  profile.blocks[0].tied.push_back({.owner = 1, .name = "b1.weight", .elements = 1});
  EXPECT_FALSE(profile_from_json(to_json(profile).dump()));
  profile = testing::in_shards(2);
  EXPECT_TRUE(profile_from_json(to_json(profile).dump()));
  profile.shards.front().weight_bytes.pop_back();
  EXPECT_FALSE(profile_from_json(to_json(profile).dump()));
  profile = testing::with_experts();
  EXPECT_TRUE(profile_from_json(to_json(profile).dump()));
  profile.cuts.front().holders = 1;  // and of one rank: nobody else
  EXPECT_FALSE(profile_from_json(to_json(profile).dump()));
}

// A block takes 1 ms forward and 2 ms backward: 12 ms a slice.
TEST(Estimated, TimeIsThatOfTheWorkerWithMostSlices) {
  EXPECT_EQ(price(way(1)).time.total(), 8 * milliseconds(12));
  EXPECT_EQ(price(way(2)).time.total(), 4 * milliseconds(12));
  EXPECT_EQ(price(way(3)).time.total(), 3 * milliseconds(12));
  EXPECT_EQ(price(sharded(3)).time.total(), 3 * milliseconds(12));
  Way lanes = way(2);
  lanes.lanes = 3;
  EXPECT_EQ(price(lanes).time.total(), 2 * milliseconds(12));
}

// Beside two windows of it for each lane, each one parameter's at least.
TEST(Estimated, OffloadedStateIsOnDisk) {
  for (const std::int64_t parameters : {1, 8}) {  // of a block
    ModelProfile profile = blocks_alike(4);
    for (BlockProfile& block : profile.blocks) {
      block.trained.assign(static_cast<std::size_t>(parameters), testing::kElements / parameters);
      block.optimizer_bytes = 64 << 20;
    }
    const std::uint64_t windows = parameters == 1 ? 128 << 20 : 32 << 20;
    for (const Way& in_memory : {way(2), sharded(2), pipeline(2, 2)}) {
      Way on_disk = in_memory;
      on_disk.offloads = true;
      const MemoryUse before = estimate(profile, in_memory, free_hardware()).value().memory;
      const MemoryUse after = estimate(profile, on_disk, free_hardware()).value().memory;
      EXPECT_EQ(before.disk, 0U);
      EXPECT_EQ(after.disk, before.optimizer);
      EXPECT_EQ(after.optimizer, windows);
      EXPECT_EQ(after.total(), before.total() - before.optimizer + windows);
    }
  }
}

TEST(Estimated, TooManyWorkersShareTheCores) {
  Hardware hardware = free_hardware();
  hardware.cores = 2;
  EXPECT_EQ(estimate(blocks_alike(4), way(4), hardware).value().time.total(), 4 * milliseconds(12));
  EXPECT_EQ(estimate(blocks_alike(4), pipeline(4, 4), hardware).value().time.total(),
            4 * milliseconds(12));
}

TEST(Estimated, PipelineIsTheSimulationOfItsSchedule) {
  const Estimate found = price(pipeline(2, 2));
  EXPECT_EQ(found.time.total(), (8 + 1) * milliseconds(6));
  EXPECT_EQ(found.time.waiting, milliseconds(6));
  EXPECT_EQ(found.partition, (layout::Partition{{0, 2}, {2, 4}}));
  EXPECT_EQ(found.pipeline->schedule.kind, layout::PipelineKind::k1F1B);
  EXPECT_EQ(price(pipeline(4, 2)).time.total(), (4 + 1) * milliseconds(6));
}

// Two replicas of what the strategies count: docs/strategies.md.
TEST(Estimated, SendsWhatTheFormulasSay) {
  ModelProfile profile = blocks_alike(4);
  for (BlockProfile& block : profile.blocks) block.trained = {16 * 1024};
  profile.notes = 16;
  const std::uint64_t all = (4 * 16 * 1024 + 16) * kFloat;
  for (const std::int32_t n : {2, 4, 8}) {
    const auto workers = static_cast<std::uint64_t>(n);
    EXPECT_EQ(price(way(n), profile).sent, 2 * (workers - 1) * all / workers) << n;
    EXPECT_EQ(price(sharded(n), profile).sent, 2 * (workers - 1) * all / workers) << n;
    EXPECT_EQ(price(way(n), profile).bytes_on_wire, all) << n;
  }
  // Of 8 slices the first of 3 workers has 3: sums of two and of one.
  EXPECT_EQ(price(way(3), profile).bytes_on_wire, 2 * all);
  Way narrow = way(2);
  narrow.buckets.dtype = DType::kBF16;
  EXPECT_EQ(price(narrow, profile).bytes_on_wire, (all - 16 * kFloat) / 2 + 16 * kFloat);
  Way fast = way(3);
  fast.ordered = false;
  EXPECT_EQ(price(fast, profile).bytes_on_wire, all);
}

TEST(Estimated, PipelineSendsActivationsAndTiedGradients) {
  ModelProfile profile = blocks_alike(4);
  const std::uint64_t plain = price(pipeline(2, 2), profile).sent;
  EXPECT_EQ(plain, 8 * testing::kOutputBytes);
  profile.blocks[3].tied.push_back({.owner = 0, .name = "b0.weight", .elements = 100});
  const Estimate tied = price(pipeline(2, 2), profile);
  EXPECT_EQ(tied.sent, 8 * (testing::kOutputBytes + 100 * kFloat));
  EXPECT_EQ(price(pipeline(4, 2), blocks_alike(4)).bytes_on_wire,
            price(pipeline(2, 2), blocks_alike(4)).bytes_on_wire);
}

TEST(Estimated, MemoryByKind) {
  const ModelProfile profile = blocks_alike(4);
  const MemoryUse data = price(way(2)).memory;
  EXPECT_EQ(data.weights, 4 * testing::kElements * kFloat);
  EXPECT_EQ(data.optimizer, 8 * testing::kElements * kFloat);
  EXPECT_EQ(data.activations, 4 * testing::kActivationBytes);
  EXPECT_EQ(data.buffers, 0u);
  EXPECT_EQ(price(sharded(4)).memory.optimizer, data.optimizer / 4);
  const MemoryUse stage = price(pipeline(4, 4)).memory;
  EXPECT_EQ(stage.weights, data.weights / 4);
  EXPECT_EQ(stage.optimizer, data.optimizer / 4);
  EXPECT_EQ(stage.activations, 4 * testing::kActivationBytes);  // of one block, 4 on their way
  Way split = pipeline(4, 4);
  split.schedule = layout::PipelineKind::kZbH1;
  EXPECT_GE(price(split).memory.activations, stage.activations);
  EXPECT_LT(price(split).time.total(), price(pipeline(4, 4)).time.total());
  Way gpipe = pipeline(4, 4);
  gpipe.schedule = layout::PipelineKind::kGPipe;
  EXPECT_EQ(price(gpipe).memory.activations, 8 * testing::kActivationBytes);
  Way first = pipeline(4, 4);
  first.optimizer_first = true;
  EXPECT_EQ(price(first).memory.buffers,
            price(pipeline(4, 4)).memory.buffers + stage.weights + stage.optimizer);
  Way elastic = way(2);
  elastic.elastic = true;
  EXPECT_EQ(price(elastic).memory.buffers, price(elastic).bytes_on_wire);
  Way met = way(2);  // 4 slices of 8
  met.slices_meet = true;
  EXPECT_EQ(price(met).memory.activations, 4 * data.activations);
}

TEST(Estimated, WorkersOfOneHostSeeEachOthersBuckets) {
  Hardware host = free_hardware();
  host.wire = comm::Wire::kMemory;
  const auto seen = [&](const Way& way) {
    return estimate(blocks_alike(4), way, host).value().memory.buffers;
  };
  const std::uint64_t bucket = (4 * testing::kElements + 16) * kFloat;
  EXPECT_EQ(seen(way(1)), 0u);
  EXPECT_EQ(seen(way(2)), bucket / 2);
  EXPECT_EQ(seen(way(4)), 3 * bucket / 4);
  EXPECT_EQ(seen(way(3)), 3 * bucket / 3);  // the others have two sums and one
  EXPECT_EQ(price(way(4)).memory.buffers, 0u);
}

// checkpoint/async_saver.h, parallel/gather_state.h
TEST(Estimated, WhoSavesHasACopyAndWhatTheOthersHad) {
  const std::uint64_t weights = 4 * testing::kElements * kFloat, optimizer = 2 * weights;
  const std::uint64_t all = weights + optimizer;
  const auto copies = [](Way way, const ModelProfile& profile) {
    way.saves = Saves::kBeside;
    return price(way, profile).memory.checkpoint;
  };
  const ModelProfile profile = blocks_alike(4);
  EXPECT_EQ(price(way(2)).memory.checkpoint, 0u) << "the job saves nothing";
  EXPECT_EQ(copies(way(1), profile), all);
  EXPECT_EQ(copies(way(4), profile), all);
  EXPECT_EQ(copies(sharded(1), profile), all);
  EXPECT_EQ(copies(sharded(4), profile), all + optimizer);
  EXPECT_EQ(copies(in_stage(3, 4), in_shards(4)), 2 * all);
  EXPECT_EQ(copies(pipeline(4, 4), profile), all + 3 * all / 4);
}

// docs/strategies.md: with V slices and n workers (V/n + 1) · (n-1)/n · P at stage 2; at stage 3
// for each of V/n turns a gather of the blocks at the ends of the model and two of the others.
TEST(Estimated, ShardsOfGradientsAndWeights) {
  const std::uint64_t whole = 4 * testing::kElements * kFloat;
  for (const std::uint64_t n : {2, 4, 8}) {
    const std::uint64_t notes = 8 / n * 16 * kFloat;  // of slices that are no neighbours
    const auto workers = static_cast<std::int32_t>(n);
    const ModelProfile profile = in_shards(workers);
    const Estimate two = price(in_stage(2, workers), profile);
    EXPECT_EQ(two.bytes_on_wire - notes, (8 / n + 1) * (n - 1) * whole / n) << n;
    EXPECT_EQ(two.memory.optimizer, price(sharded(workers)).memory.optimizer);
    EXPECT_EQ(two.memory.weights, whole);
    const std::uint64_t sums = n == 2 ? 2 : 1;
    EXPECT_GE(two.memory.gradients, sums * whole / n) << n;
    EXPECT_LE(two.memory.gradients, sums * whole / n + 4 * notes) << n;
    const Estimate three = price(in_stage(3, workers), profile);
    // The last block's once a turn, the first one's stay from one turn to the next.
    const std::uint64_t turns = 8 / n, gathers = turns * (1 + 2 + 2) + turns + 1;
    EXPECT_EQ(three.bytes_on_wire - notes,
              turns * (n - 1) * whole / n + gathers * (n - 1) * whole / n / 4)
        << n;
    EXPECT_EQ(three.memory.weights, whole / n + 2 * testing::kElements * kFloat) << n;
  }
  const auto none = estimate(blocks_alike(4), in_stage(2, 2), free_hardware());
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("shards among 2 workers were not looked at"),
            std::string::npos);
}

// parallel/packed_weights.h
TEST(Estimated, WeightsThatTravelIn16BitsAreHeldInF32) {
  ModelProfile narrow = in_shards(4);
  for (std::uint64_t& bytes : narrow.shards.front().weight_bytes) bytes /= 2;
  const Estimate full = price(in_stage(3, 4), in_shards(4)), half = price(in_stage(3, 4), narrow);
  const std::uint64_t gathers = 2 * (1 + 2 + 2) + 2 + 1;  // in two turns, as above
  EXPECT_EQ(full.bytes_on_wire - half.bytes_on_wire,
            gathers * 3 * testing::kElements / 4 * kFloat / 2);
  EXPECT_EQ(half.memory.weights, full.memory.weights);
}

TEST(Estimated, WeightsThatComeTooSlowlyAreWaitedFor) {
  Hardware slow = free_hardware();
  slow.link = {milliseconds(5), 1e9};
  const Estimate two = estimate(in_shards(2), in_stage(2, 2), slow).value();
  const Estimate three = estimate(in_shards(2), in_stage(3, 2), slow).value();
  EXPECT_GT(three.time.communication, two.time.communication);
  EXPECT_EQ(price(in_stage(3, 2), in_shards(2)).time.total(), price(way(2)).time.total());
}

TEST(Estimated, CutTensorsTakeTheirPartAndMeet) {
  const ModelProfile profile = in_parts();
  const Estimate found = price(tensor(2), profile);
  EXPECT_EQ(found.time.total(), 8 * milliseconds(6));
  const Estimate whole = price(way(1), profile);
  EXPECT_EQ(found.memory.weights, whole.memory.weights / 2);
  EXPECT_EQ(found.memory.optimizer, whole.memory.optimizer / 2);
  EXPECT_EQ(found.memory.activations, whole.memory.activations / 2);
  const std::uint64_t sums = 8 * (8 * 4000 + 64);  // 8 slices
  EXPECT_EQ(found.bytes_on_wire, sums + 4 * testing::kElements / 2 * kFloat + 16 * kFloat);
  EXPECT_EQ(found.sent, sums);  // of two ranks each sends as much as it hands over
  const Estimate replicas = price(tensor(4), profile);
  EXPECT_EQ(replicas.time.total(), 4 * milliseconds(6));
  EXPECT_EQ(replicas.bytes_on_wire, found.bytes_on_wire - sums / 2);
  Way sequences = tensor(2);
  sequences.sequence_parallel = true;
  EXPECT_EQ(price(sequences, profile).bytes_on_wire, found.bytes_on_wire + 8 * kFloat);
  Way saves = tensor(2);
  saves.recomputed = {false, true, true, false};
  EXPECT_EQ(price(saves, profile).bytes_on_wire, found.bytes_on_wire + 8 * 2 * 4000);
  Way uneven = tensor(2);
  uneven.samples = 24;  // slices of three
  EXPECT_EQ(price(uneven, profile).bytes_on_wire, found.bytes_on_wire - sums / 4);
}

TEST(Estimated, SharedSequencesTakeTheirPositionsAndReduceOverAll) {
  const ModelProfile profile = in_shared_sequences();
  const Estimate whole = price(way(1), profile);
  const Estimate found = price(context(2, Attention::kUlysses), profile);
  EXPECT_EQ(found.time.total(), 8 * milliseconds(6));
  EXPECT_EQ(found.memory.weights, whole.memory.weights);
  EXPECT_EQ(found.memory.optimizer, whole.memory.optimizer);
  EXPECT_EQ(found.memory.activations, whole.memory.activations / 2);
  const std::uint64_t gradients = 4 * testing::kElements * kFloat + 16 * kFloat;
  EXPECT_EQ(found.bytes_on_wire, gradients + 8 * 8 * 4000);  // 8 slices, 4 blocks, both ways
  EXPECT_GT(found.sent, 8 * 8 * 4000 + gradients / 2);       // and the reduction between the two
  EXPECT_EQ(price(context(2, Attention::kRing), profile).bytes_on_wire,
            gradients + 8 * 8 * 2 * 3000);
  const Estimate replicas = price(context(4, Attention::kUlysses), profile);
  EXPECT_EQ(replicas.time.total(), 4 * milliseconds(6));
  EXPECT_EQ(replicas.bytes_on_wire, gradients + 4 * 8 * 4000);
  Hardware slow = free_hardware();
  slow.link = {milliseconds(1), 1e6};
  EXPECT_GT(estimate(profile, context(2, Attention::kRing), slow).value().time.communication,
            8 * 8 * milliseconds(2 + 6));  // two messages, 6000 bytes
}

TEST(Estimated, RecomputingKeepsOutputsAndTakesAForwardMore) {
  Way saves = way(1);
  saves.recomputed = {false, true, true, false};
  const Estimate found = price(saves);
  EXPECT_EQ(found.time.total(), 8 * milliseconds(12 + 2));
  EXPECT_EQ(found.memory.activations,
            (2 + 1) * testing::kActivationBytes + 2 * testing::kOutputBytes);
}

TEST(Estimated, SmallerPassesHoldLess) {
  ModelProfile profile = blocks_alike(4);
  profile.passes.push_back(profile.passes.front());
  profile.passes.back().samples = 2;
  for (BlockPass& block : profile.passes.back().blocks) block.activation_bytes /= 2;
  Way half = way(1);
  half.micro_batch = 2;
  EXPECT_EQ(price(half, profile).memory.activations, 2 * testing::kActivationBytes);
  EXPECT_EQ(price(half, profile).time.total(), 2 * price(way(1), profile).time.total());
}

TEST(Estimated, LinksTakeTheirTimeAfterBackward) {
  Hardware slow = free_hardware();
  slow.link = {milliseconds(1), 1e6};
  const Estimate found = estimate(blocks_alike(4), way(2), slow).value();
  EXPECT_GT(found.time.communication, milliseconds(2));
  EXPECT_EQ(estimate(blocks_alike(4), way(1), slow).value().time.communication, Duration{});
  EXPECT_GT(estimate(blocks_alike(4), pipeline(2, 2), slow).value().time.total(),
            price(pipeline(2, 2)).time.total());
}

TEST(Estimated, WhatCannotBeSaysWhy) {
  const auto why = [](const Way& way) {
    const auto found = estimate(blocks_alike(4), way, free_hardware());
    return found ? std::string("it can") : found.error().message;
  };
  EXPECT_NE(why(pipeline(5, 5)).find("4 blocks, too few for 5 chunks"), std::string::npos);
  EXPECT_NE(why(pipeline(3, 2)).find("3 workers are no whole number"), std::string::npos);
  EXPECT_NE(why(way(9)).find("9 workers need a slice"), std::string::npos);
  Way other = way(1);
  other.micro_batch = 3;
  EXPECT_NE(why(other).find("passes of 3 samples"), std::string::npos);
  Way by_hand = pipeline(2, 2);
  by_hand.block_counts = {1, 2};
  EXPECT_NE(why(tensor(2)).find("not measured with tensors in 2 parts"), std::string::npos);
  EXPECT_NE(why(context(2, Attention::kRing)).find("not measured with sequences in 2 parts"),
            std::string::npos);
  EXPECT_NE(why(tensor(3)).find("3 workers are no whole number of replicas of 2"),
            std::string::npos);
  EXPECT_NE(why(by_hand), "it can");
}

}  // namespace
}  // namespace muster::plan
