// Steps whose slices meet at batch norms (SliceOptions::sync_batch_norm).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <map>
#include <thread>

#include "muster/base/check.h"
#include "muster/parallel/sharded.h"
#include "muster/parallel/tensor_bridge.h"
#include "muster/parallel/testing/plain_training.h"

namespace muster::parallel {
namespace {

SliceOptions options_to_meet(std::int32_t lanes = 1) {
  return {.lanes = lanes, .seed = 3, .bucket_sizes = {1 << 10, 1 << 12}, .sync_batch_norm = true};
}

const models::ModelSpec kPlainResNet = models::ResNetSpec{.channels = {8, 16}};

// Steps of 21 samples, and one of 5, which leaves three slices empty.
TEST(SyncBatchNormSteps, HaveTheSameBitsAtAnyNumberOfRanksAndLanes) {
  const std::string expected = train_together(kResNet, 1, options_to_meet()).front().hash;
  for (const std::int32_t size : {1, 2, 3, 5, 8})
    for (const std::int32_t lanes : {1, 2})
      for (const Outcome& outcome : train_together(kResNet, size, options_to_meet(lanes)))
        EXPECT_EQ(outcome.hash, expected) << size << " ranks, " << lanes << " lanes";
  SliceOptions apart = options_to_meet();
  apart.sync_batch_norm = false;
  EXPECT_NE(train_together(kResNet, 1, apart).front().hash, expected);
}

TEST(SyncBatchNormSteps, HaveTheSameBitsBesideRanksWithoutSlices) {
  const std::string expected = train_together(kResNet, 1, options_to_meet()).front().hash;
  for (const auto& counts : std::vector<std::vector<std::int32_t>>{{3, 0, 5}, {0, 8}, {0, 1, 7}})
    for (const Outcome& outcome : train_dealt(kResNet, counts, options_to_meet()))
      EXPECT_EQ(outcome.hash, expected) << counts.size() << " ranks";
}

TEST(SyncBatchNormSteps, HaveTheSameBitsIn16Bits) {
  SliceOptions options = options_to_meet();
  options.compute.precision = models::Precision::kBF16;
  const std::string expected = train_together(kResNet, 1, options).front().hash;
  options.lanes = 2;
  for (const Outcome& outcome : train_together(kResNet, 3, options))
    EXPECT_EQ(outcome.hash, expected);
}

using Tensors = std::map<std::string, at::Tensor>;

// By one rank.
Tensors trained_alone(const SliceOptions& options) {
  auto strategy = make_strategy(kPlainResNet, comm::create_loopback(1).front(), options);
  for (std::int64_t step = 1; step <= 4; ++step) {
    const Batch batch(step == 4 ? 5 : 21, comm::LeafRange{0, kSlices},
                      static_cast<std::uint64_t>(step));
    EXPECT_TRUE(strategy->step({.batch = batch.step,
                                .step = Step{step},
                                .learning_rate = 0.05,
                                .flags = {},
                                .before_update = {}}));
  }
  Tensors state;
  for (const StateSlice& slice : strategy->model_state())
    state[slice.name] = tensor_over(slice.tensor).clone();
  return state;
}

double largest_difference(const Tensors& found, const Tensors& wanted) {
  double largest = 0;
  for (const auto& [name, tensor] : wanted) {
    const double apart = (found.at(name) - tensor).abs().max().item<double>();
    largest = std::max(largest, apart / (1 + tensor.abs().max().item<double>()));
  }
  return largest;
}

// In fast mode a single lane takes the whole batch through the model at once, with libtorch's own
// batch norm. Rounding switches a ReLU here and there.
TEST(SyncBatchNormSteps, AreThoseOfTheWholeBatchInOnePass) {
  constexpr double kApart = 3e-3;
  const Tensors whole = trained_alone({.ordered = false, .seed = 3});
  EXPECT_LT(largest_difference(trained_alone(options_to_meet()), whole), kApart);
  SliceOptions fast = options_to_meet(3);
  fast.ordered = false;
  EXPECT_LT(largest_difference(trained_alone(fast), whole), kApart);
  EXPECT_GT(largest_difference(trained_alone({.seed = 3}), whole), 3 * kApart) << "anything passes";
}

TEST(SyncBatchNormSteps, InFastModeComeToTheSameLossUpToRounding) {
  SliceOptions options = options_to_meet(2);
  const double expected = train_together(kPlainResNet, 1, options).front().loss;
  options.ordered = false;
  for (const std::int32_t size : {1, 2, 3})
    EXPECT_NEAR(train_together(kPlainResNet, size, options).front().loss, expected, 2e-3) << size;
}

// Two steps by three ranks; in the third one of them dies before it computes. The others take the
// step again as a whole: their slices had waited for those of the dead.
std::string train_and_lose(std::int32_t victim, std::int32_t lanes) {
  const auto before = comm::create_loopback(3);
  const auto after = comm::create_loopback(2, Generation{2});
  std::vector<std::string> hashes(2);
  std::barrier all_have_two_steps(3);
  std::vector<std::jthread> ranks;
  for (std::int32_t r = 0; r < 3; ++r) {
    ranks.emplace_back([&, r] {
      auto strategy =
          make_strategy(kResNet, before[static_cast<std::size_t>(r)], options_to_meet(lanes));
      const auto run = [&](std::int64_t step, std::int32_t size, std::int32_t rank) {
        const Batch batch(step == 4 ? 5 : 21, comm::even_share(kSlices, size, rank),
                          static_cast<std::uint64_t>(step));
        return strategy->step({.batch = batch.step,
                               .step = Step{step},
                               .learning_rate = 0.05,
                               .flags = {},
                               .before_update = {}});
      };
      ASSERT_TRUE(run(1, 3, r) && run(2, 3, r));
      all_have_two_steps.arrive_and_wait();
      if (r == victim)
        return before[static_cast<std::size_t>(r)]->abort(fail(ErrorCode::kPeerLost, "died"));
      const auto broken = run(3, 3, r);
      ASSERT_FALSE(broken);
      EXPECT_EQ(broken.error().code, ErrorCode::kPeerLost) << broken.error().message;
      EXPECT_EQ(strategy->kept(), std::nullopt);
      const auto me = static_cast<std::size_t>(r > victim ? r - 1 : r);
      ASSERT_TRUE(strategy->enter(after[me], comm::even_owners(kSlices, 2)));
      ASSERT_TRUE(run(3, 2, static_cast<std::int32_t>(me)));
      ASSERT_TRUE(run(4, 2, static_cast<std::int32_t>(me)));
      hashes[me] = hash_of(*strategy);
    });
  }
  ranks.clear();
  EXPECT_EQ(hashes[0], hashes[1]);
  return hashes[0];
}

TEST(SyncBatchNormSteps, AreTakenAgainWhicheverRankDies) {
  const std::string expected = train_together(kResNet, 1, options_to_meet()).front().hash;
  for (std::int32_t victim = 0; victim < 3; ++victim)
    for (const std::int32_t lanes : {1, 2})
      EXPECT_EQ(train_and_lose(victim, lanes), expected)
          << "rank " << victim << ", " << lanes << " lanes";
}

// The optimizer's state in shards, with slices that are dealt anew in between.
TEST(SyncBatchNormSteps, HaveTheSameBitsWithShards) {
  const std::string expected = [] {
    auto strategy = make_strategy(kResNet, comm::create_loopback(1).front(), options_to_meet());
    const Batch batch(21, comm::LeafRange{0, kSlices}, 1);
    for (const int step : {1, 2})
      EXPECT_TRUE(strategy->step({.batch = batch.step,
                                  .step = Step{step},
                                  .learning_rate = 0.05,
                                  .flags = {},
                                  .before_update = {}}));
    Sha256 hash;
    for (const StateSlice& slice : strategy->model_state()) hash.update(slice.tensor.bytes);
    return to_hex(hash.finish());
  }();
  const auto communicators = comm::create_loopback(3);
  std::vector<std::jthread> ranks;
  for (const auto& communicator : communicators) {
    ranks.emplace_back([&] {
      auto model = models::create_model(kResNet).value();
      model->initialize(1);
      const auto create = [](std::vector<optim::OptimizedParameter> parts) {
        return optim::create_optimizer(optim::SgdSpec{.weight_decay = 1e-3}, std::move(parts));
      };
      auto strategy =
          Sharded::create(std::move(model), create, options_to_meet(2), system_clock()).value();
      const Rank me = communicator->group().rank;
      int step = 0;
      for (const auto& owners : {comm::even_owners(kSlices, 3), comm::owners_by_count({1, 6, 1})}) {
        ASSERT_TRUE(strategy->enter(communicator, owners));
        const Batch batch(21, slices_of(owners, me), 1);
        ASSERT_TRUE(strategy->step({.batch = batch.step,
                                    .step = Step{++step},
                                    .learning_rate = 0.05,
                                    .flags = {},
                                    .before_update = {}}));
      }
      Sha256 hash;
      for (const StateSlice& slice : strategy->model_state()) hash.update(slice.tensor.bytes);
      EXPECT_EQ(to_hex(hash.finish()), expected) << "rank " << to_int(me);
    });
  }
}

// A loss of a rank's own slice that cannot be computed ends the step there, and names it.
TEST(SyncBatchNormSteps, TellWhatASliceFailedOf) {
  auto strategy = make_strategy(kResNet, comm::create_loopback(1).front(), options_to_meet(2));
  Batch batch(16, comm::LeafRange{0, kSlices}, 1);
  batch.tensors[7].fill_(1000);  // a class that there is not, in the fourth slice
  const auto report = strategy->step({.batch = batch.step,
                                      .step = Step{1},
                                      .learning_rate = 0.05,
                                      .flags = {},
                                      .before_update = {}});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, ::testing::HasSubstr("out of bounds"));
}

TEST(SyncBatchNormSteps, AreOfWholeSlices) {
  SliceOptions options = options_to_meet();
  options.micro_batch_size = 2;
  EXPECT_THROW(make_strategy(kResNet, comm::create_loopback(1).front(), options), LogicFault);
  options = options_to_meet();
  options.elastic = true;
  EXPECT_THROW(make_strategy(kResNet, comm::create_loopback(1).front(), options), LogicFault);
}

}  // namespace
}  // namespace muster::parallel
