#pragma once
// Ways to train the hand-made models of profiles.h, and those as workers would have measured them
// for that.

#include "muster/plan/estimate.h"
#include "muster/plan/testing/profiles.h"

namespace muster::plan::testing {

inline Way pipeline(std::int32_t workers, std::int32_t stages) {
  Way way = plan::testing::way(workers);
  way.spread = Spread::kPipeline;
  way.stages = stages;
  return way;
}

inline Way sharded(std::int32_t workers) {
  Way way = plan::testing::way(workers);
  way.spread = Spread::kSharded;
  return way;
}

inline Estimate price(const Way& way, const ModelProfile& profile = blocks_alike(4)) {
  return estimate(profile, way, free_hardware()).value();
}

// Four blocks of 1024 floats, each in a bucket of its own, a quarter of it each of four workers'.
inline ModelProfile in_shards(std::int32_t workers) {
  ModelProfile profile = blocks_alike(4);
  const std::int64_t own = kElements / workers;
  const ShardedBuckets buckets{.sizes = std::vector(4, kElements), .own = std::vector(4, own)};
  profile.shards = {{.workers = workers,
                     .gradients = buckets,
                     .by_block = buckets,
                     .weights = buckets,
                     .weight_bytes = std::vector(4, static_cast<std::uint64_t>(own) * kFloat),
                     .needed = {{0}, {1}, {2}, {3}}}};
  return profile;
}

inline Way in_stage(std::int32_t stage, std::int32_t workers) {
  Way way = sharded(workers);
  way.zero_stage = stage;
  return way;
}

// Half of each block on each of two ranks, with a sum of 4000 bytes forward and one back.
inline ModelProfile in_parts() {
  ModelProfile profile = blocks_alike(4);
  CutProfile cut{.ranks = 2, .blocks = profile.blocks, .whole = 8, .pass = profile.passes.front()};
  for (std::size_t b = 0; b < 4; ++b) {
    cut.blocks[b].trained = {kElements / 2};
    cut.blocks[b].optimizer_bytes /= 2;
    BlockPass& pass = cut.pass.blocks[b];
    pass.forward /= 2, pass.backward /= 2, pass.activation_bytes /= 2;
    pass.forward_messages = pass.backward_messages = {{RankMessage::Kind::kSum, 4000}};
  }
  cut.pass.loss_messages = {{RankMessage::Kind::kGather, 64}};
  profile.cuts.push_back(cut);
  cut.sequence = true;
  profile.cuts.push_back(cut);
  return profile;
}

inline Way tensor(std::int32_t workers) {
  Way way = plan::testing::way(workers);
  way.spread = Spread::kTensor;
  way.tensor = 2;
  return way;
}

// Half of every sequence on each of two ranks, which exchange heads or pass keys on.
inline ModelProfile in_shared_sequences() {
  ModelProfile profile = blocks_alike(4);
  CutProfile cut{.ranks = 2, .attention = Attention::kUlysses, .blocks = profile.blocks};
  cut.pass = profile.passes.front();
  for (BlockPass& pass : cut.pass.blocks) {
    pass.forward /= 2, pass.backward /= 2, pass.activation_bytes /= 2;
    pass.forward_messages = pass.backward_messages = {{RankMessage::Kind::kExchange, 4000}};
  }
  profile.cuts.push_back(cut);
  cut.attention = Attention::kRing;
  for (BlockPass& pass : cut.pass.blocks)
    pass.forward_messages = pass.backward_messages = {{RankMessage::Kind::kPassOn, 3000},
                                                      {RankMessage::Kind::kPassOn, 3000}};
  profile.cuts.push_back(cut);
  return profile;
}

inline Way context(std::int32_t workers, Attention attention) {
  Way way = plan::testing::way(workers);
  way.spread = Spread::kContext;
  way.context = 2;
  way.attention = attention;
  return way;
}

// Two of four parameters of each block are experts', of which each of two ranks holds one; 3000
// bytes of rows go to the other one's, forward and back.
inline ModelProfile with_experts() {
  ModelProfile profile = blocks_alike(4);
  for (BlockProfile& block : profile.blocks) block.trained = std::vector(4, kElements / 4);
  CutProfile cut{.ranks = 1, .holders = 2, .blocks = profile.blocks, .whole = 3 * kElements};
  cut.pass = profile.passes.front();
  for (std::size_t b = 0; b < 4; ++b) {
    cut.blocks[b].trained = std::vector(2, kElements / 4);
    cut.blocks[b].experts = {kElements / 4};
    cut.blocks[b].optimizer_bytes = cut.blocks[b].optimizer_bytes * 3 / 4;
    cut.pass.blocks[b].forward_messages =
        cut.pass.blocks[b].backward_messages = {{RankMessage::Kind::kExchange, 3000}};
  }
  profile.cuts.push_back(cut);
  return profile;
}

// And with tensors cut over two ranks as well, of which each has half of these parameters: sums of
// 4000 bytes beside the rows.
inline ModelProfile with_experts_in_parts() {
  ModelProfile profile = with_experts();
  CutProfile cut = profile.cuts.front();
  cut.ranks = 2;
  cut.whole = 8;
  for (std::size_t b = 0; b < 4; ++b) {
    cut.blocks[b].trained = std::vector(2, kElements / 8);
    cut.blocks[b].experts = {kElements / 8};
    cut.blocks[b].optimizer_bytes /= 2;
    BlockPass& pass = cut.pass.blocks[b];
    pass.forward /= 2, pass.backward /= 2, pass.activation_bytes /= 2;
    for (auto* messages : {&pass.forward_messages, &pass.backward_messages})
      messages->push_back({RankMessage::Kind::kSum, 4000});
  }
  profile.cuts.push_back(cut);
  return profile;
}

inline Way expert(std::int32_t workers) {
  Way way = plan::testing::way(workers);
  way.spread = Spread::kExpert;
  way.expert = 2;
  return way;
}

}  // namespace muster::plan::testing
