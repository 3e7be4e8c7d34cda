// Weights in shards: ZeRO stage 3.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "muster/parallel/testing/sharded_training.h"

namespace muster::parallel::shards {
namespace {

struct WeightFigures {
  Sharded::WeightMemory after;
  std::uint64_t formula = 0;
  bool has_memory = false;  // a parameter of the model, between steps
};

std::vector<WeightFigures> weight_figures_of(const Recipe& recipe, std::int32_t size) {
  const auto communicators = comm::create_loopback(size);
  std::vector<WeightFigures> figures(static_cast<std::size_t>(size));
  std::vector<std::jthread> ranks;
  for (std::size_t r = 0; r < figures.size(); ++r)
    ranks.emplace_back([&, r] {
      const auto strategy = sharded_of(recipe, in_stage(3, options_of(1)));
      const comm::LeafOwners owners = owners_for(*strategy, size);
      WeightFigures& found = figures[r];
      found.formula = strategy->weight_bytes(size);
      EXPECT_TRUE(strategy->enter(communicators[r], owners));
      for (std::int64_t step = 1; step <= 2; ++step)
        one_step(*strategy, slices_of(owners, Rank{static_cast<std::int32_t>(r)}), step);
      found.after = strategy->measured_weights();
      for (const auto* all : {&strategy->model().parameters(), &strategy->model().frozen()})
        for (const models::Parameter& parameter : *all)
          found.has_memory |= parameter.tensor.storage().data() != nullptr;
    });
  ranks.clear();
  return figures;
}

std::uint64_t bytes_of(const std::vector<std::int64_t>& counts) {
  return sizeof(float) *
         static_cast<std::uint64_t>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
}

// A wide layer between narrow ones: it and its wider neighbour are the most that is whole.
TEST(ShardedWeights, AreWholeTwoBlocksAtATime) {
  const Recipe recipe{models::MlpSpec{.inputs = kImage * kImage, .hidden = {64, 320, 96, 96}},
                      optim::SgdSpec{}};
  const std::vector<std::int64_t> layers = {64 * 64 + 64, 64 * 320 + 320, 320 * 96 + 96,
                                            96 * 96 + 96, 96 * 10 + 16};  // as padded in buckets
  for (const std::int32_t size : {1, 2, 5}) {
    std::uint64_t shards = 0;
    for (const WeightFigures& rank : weight_figures_of(recipe, size)) {
      EXPECT_EQ(rank.after.whole, bytes_of({layers[1], layers[2]})) << size << " ranks";
      EXPECT_EQ(rank.after.whole_now, 0u);
      EXPECT_FALSE(rank.has_memory);
      const std::uint64_t found = rank.after.shards + rank.after.whole;
      const std::uint64_t cell = 4 * 2048;  // shards are cut at their borders
      EXPECT_LE(found, rank.formula + cell * layers.size());
      EXPECT_GE(found + cell * layers.size(), rank.formula);
      shards += rank.after.shards;
    }
    EXPECT_EQ(shards, bytes_of(layers)) << size << " ranks";
  }
}

// Of a model whose adapters alone are trained: what is frozen is most of it.
TEST(ShardedWeights, FrozenOnesAreCutAsWell) {
  const Recipe recipe{kGpt, optim::AdamWSpec{}, {}, 0, {.rank = 2}};
  const auto whole = static_cast<std::uint64_t>(model_of(recipe)->parameter_count()) * 4;
  std::uint64_t shards = 0;
  for (const WeightFigures& rank : weight_figures_of(recipe, 3)) {
    EXPECT_LT(rank.after.shards, whole / 2);
    EXPECT_FALSE(rank.has_memory);
    shards += rank.after.shards;
  }
  EXPECT_GE(shards, whole);
  EXPECT_LE(shards, whole * 11 / 10);  // padding of many small tensors
}

// Trained ones and frozen ones, averages, embeddings with and without a head of their own.
TEST(ShardedWeights, HaveTheBitsOfPlainTrainingWhereTheyTravelIn16) {
  for (const auto precision : {models::Precision::kBF16, models::Precision::kF16})
    for (const Recipe& recipe :
         {Recipe{kGpt, optim::AdamWSpec{}}, Recipe{kLlama, optim::AdamWSpec{}, {"layer0*"}},
          Recipe{kResNet, optim::SgdSpec{}}, Recipe{kMlp, optim::SgdSpec{}, {}, 0.9, {}, true}}) {
      SliceOptions options = options_of(2);
      options.compute.precision = precision;
      const Outcome expected = train_plain(recipe, options);
      const std::string where = testing::PrintToString(recipe);
      expect_same(train_sharded(recipe, 3, in_stage(3, options)), expected, where);
      expect_same(train_sharded(recipe, 4, in_stage(3, options), {}, 2), expected, where);
    }
}

// In passes of this precision: what all ranks send in a step.
std::uint64_t sent_in(models::Precision precision, const Recipe& recipe, std::int32_t size) {
  SliceOptions options = in_stage(3, options_of(1));
  options.compute.precision = precision;
  const auto communicators = comm::create_loopback(size);
  std::vector<std::uint64_t> sent(communicators.size());
  std::vector<std::jthread> ranks;
  for (std::size_t r = 0; r < sent.size(); ++r)
    ranks.emplace_back([&, r] {
      const auto strategy = sharded_of(recipe, options);
      const comm::LeafOwners owners = owners_for(*strategy, size);
      EXPECT_TRUE(strategy->enter(communicators[r], owners));
      const auto mine = slices_of(owners, Rank{static_cast<std::int32_t>(r)});
      sent[r] = one_step(*strategy, mine, 1).bytes_reduced;
    });
  ranks.clear();
  return std::accumulate(sent.begin(), sent.end(), std::uint64_t{0});
}

// Of two blocks the last one comes once a turn, the first one once more: it stays from one turn to
// the next.
TEST(ShardedWeights, TakeHalfTheBytesInPassesOf16Bits) {
  const Recipe recipe{models::MlpSpec{.inputs = kImage * kImage, .hidden = {320}},
                      optim::SgdSpec{}};
  for (const std::int32_t size : {2, 3}) {
    const std::int64_t turns = (kSlices + size - 1) / size;
    const std::uint64_t weights =  // as padded in buckets
        bytes_of({(turns + 1) * (64 * 320 + 320), turns * (320 * 10 + 16)});
    const auto others = static_cast<std::uint64_t>(size - 1);
    const std::uint64_t full = sent_in(models::Precision::kF32, recipe, size);
    EXPECT_EQ(full - sent_in(models::Precision::kBF16, recipe, size), others * weights / 2) << size;
  }
}

// As when slices are shared out by speed: the same ranks, other slices.
TEST(ShardedWeights, GoOnWhereSlicesAreDealtAnew) {
  const Recipe recipe{kGpt, optim::AdamWSpec{}};
  const auto run = [](SliceStrategy& strategy,
                      const std::shared_ptr<comm::Communicator>& communicator,
                      const std::vector<comm::LeafOwners>& deals) {
    std::int64_t step = 0;
    for (const comm::LeafOwners& owners : deals) {
      EXPECT_TRUE(strategy.enter(communicator, owners));
      one_step(strategy, slices_of(owners, communicator->group().rank), ++step);
    }
    const auto gathered = strategy.gather_state(Rank{0});
    EXPECT_TRUE(gathered);
    return gathered ? hash_of(gathered->model) : std::string();
  };
  const auto plain = plain_of(recipe, options_of(1));
  const comm::LeafOwners all = comm::even_owners(kSlices, 1);
  const std::string expected = run(*plain, comm::create_loopback(1).front(), {all, all});
  const std::vector<comm::LeafOwners> deals = {comm::owners_in_turns(std::vector{4, 4}),
                                               comm::owners_by_count(std::vector{1, 7})};
  const auto communicators = comm::create_loopback(2);
  std::vector<std::string> found(2);
  std::vector<std::jthread> ranks;
  for (std::size_t r = 0; r < 2; ++r)
    ranks.emplace_back([&, r] {
      const auto strategy = sharded_of(recipe, in_stage(3, options_of(1)));
      found[r] = run(*strategy, communicators[r], deals);
    });
  ranks.clear();
  EXPECT_EQ(found[0], expected);
}

// What is read from a checkpoint, or a checkpoint of another strategy, is whole: it is cut after.
TEST(ShardedWeights, TakeAndGiveWholeTensors) {
  const Recipe recipe{kGpt, optim::AdamWSpec{}, {"layer1.norm*"}};
  const auto communicators = comm::create_loopback(2);
  std::vector<std::string> before(2), after(2);
  std::vector<std::jthread> ranks;
  for (std::size_t r = 0; r < 2; ++r)
    ranks.emplace_back([&, r] {
      const auto strategy = sharded_of(recipe, in_stage(3, options_of(1)));
      EXPECT_TRUE(strategy->holds_all());
      std::vector<StateSlice> whole = strategy->model_state();
      for (const StateSlice& slice : whole) slice.tensor.as<float>()[0] = 0.25;
      before[r] = hash_of(whole);
      EXPECT_TRUE(strategy->enter(communicators[r], owners_for(*strategy, 2)));
      EXPECT_FALSE(strategy->holds_all());
      const auto gathered = strategy->gather_state(Rank{1});
      ASSERT_TRUE(gathered);
      if (r == 1) after[r] = hash_of(gathered->model);
      std::vector<std::string> names;
      for (const StateSlice& slice : gathered->model) names.push_back(slice.name);
      EXPECT_EQ(names.size(), r == 1 ? whole.size() : 0);
      for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(names[i], whole[i].name);
    });
  ranks.clear();
  EXPECT_EQ(after[1], before[1]);
  EXPECT_EQ(before[0], before[1]);
}

}  // namespace
}  // namespace muster::parallel::shards
