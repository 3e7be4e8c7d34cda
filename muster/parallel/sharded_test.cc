#include "muster/parallel/sharded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "muster/base/glob.h"
#include "muster/base/hash.h"
#include "muster/comm/backend/loopback/loopback.h"
#include "muster/comm/wrap/wrappers.h"
#include "muster/models/create.h"
#include "muster/parallel/data_parallel.h"
#include "muster/parallel/testing/sharded_training.h"

namespace muster::parallel::shards {
namespace {

class ZeroOne : public testing::TestWithParam<Recipe> {};

TEST_P(ZeroOne, HasTheBitsOfPlainDataParallelism) {
  const auto plain = plain_of(GetParam(), options_of(1));
  const Outcome expected =
      train(*plain, comm::create_loopback(1).front(), conduct_of(GetParam(), options_of(1)));
  for (const std::int32_t size : {1, 2, 3, 5, 7, 8})
    for (const std::int32_t lanes : {1, 2}) {
      const auto outcomes = train_sharded(GetParam(), size, options_of(lanes));
      for (const Outcome& outcome : outcomes) {
        EXPECT_EQ(outcome.model, expected.model) << size << " ranks, " << lanes << " lanes";
        EXPECT_EQ(outcome.grad_norm, expected.grad_norm);
        EXPECT_EQ(outcome.average_loss, expected.average_loss);
      }
      EXPECT_EQ(outcomes.front().optimizer, expected.optimizer) << size << " ranks";
    }
}

TEST_P(ZeroOne, HasThemIn16BitsAsWell) {
  for (const auto precision : {models::Precision::kBF16, models::Precision::kF16}) {
    SliceOptions options = options_of(1);
    options.compute.precision = precision;
    options.bucket_sizes.dtype = precision == models::Precision::kF16 ? DType::kF16 : DType::kBF16;
    const auto plain = plain_of(GetParam(), options);
    const Outcome expected =
        train(*plain, comm::create_loopback(1).front(), conduct_of(GetParam(), options));
    for (const std::int32_t size : {2, 5}) {
      const auto outcomes = train_sharded(GetParam(), size, options);
      for (const Outcome& outcome : outcomes) {
        EXPECT_EQ(outcome.model, expected.model) << size << " ranks";
        EXPECT_EQ(outcome.grad_norm, expected.grad_norm);
        EXPECT_EQ(outcome.average_loss, expected.average_loss);
      }
      EXPECT_EQ(outcomes.front().optimizer, expected.optimizer) << size << " ranks";
    }
  }
}

TEST_P(ZeroOne, RanksShareTheOptimizerStateOut) {
  const auto plain = plain_of(GetParam(), options_of(1));
  const std::uint64_t whole = train(*plain, comm::create_loopback(1).front()).held;
  for (const std::int32_t size : {2, 5}) {
    std::uint64_t sum = 0;
    for (const Outcome& outcome : train_sharded(GetParam(), size, options_of(1))) {
      EXPECT_LT(outcome.held, whole);
      sum += outcome.held;
    }
    EXPECT_EQ(sum, whole);
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, ZeroOne, kRecipes);

// Frozen parameters stay where they are, have no slot in the buckets and no state.
TEST(Sharded, FrozenParametersCostNothing) {
  const Recipe all{kMlp, optim::AdamWSpec{}}, some{kMlp, optim::AdamWSpec{}, {"layer0*"}};
  const auto bytes = [](const Recipe& recipe) {
    const auto strategy = plain_of(recipe, options_of(1));
    const auto state_of = [&] {
      std::map<std::string, std::string> found;
      for (const StateSlice& slice : strategy->model_state()) found[slice.name] = hash_of({slice});
      return found;
    };
    const auto start = state_of();
    EXPECT_TRUE(strategy->enter(comm::create_loopback(1).front(), comm::even_owners(kSlices, 1)));
    const std::uint64_t reduced =
        one_step(*strategy, slices_of(comm::even_owners(kSlices, 1), Rank{0}), 1).bytes_reduced;
    for (const auto& [name, hash] : state_of())
      EXPECT_EQ(hash == start.at(name), matches_any(recipe.freeze, name)) << name;
    return std::pair(reduced, strategy->optimizer_bytes(1));
  };
  const std::uint64_t frozen = 4 * (kImage * kImage * 70 + 70);
  EXPECT_EQ(bytes(all).second - bytes(some).second, 2 * frozen);
  EXPECT_GE(bytes(all).first - bytes(some).first, frozen);
}

// Where the loss depends on frozen parameters only, the others are unused: their gradient is zero.
TEST(Sharded, UnusedParametersHaveNoGradient) {
  const auto unused = [] {
    auto model = std::make_unique<models::Model>("mlp", [] {
      struct Idle final : models::Block {
        at::Tensor weight = add_parameter({.name = "used"}, {kImage * kImage, 10});
        at::Tensor idle = add_parameter({.name = "idle"}, {3, 4});
        at::Tensor forward(at::Tensor input, models::PassContext&) override {
          return at::matmul(input.flatten(1), weight);
        }
      };
      return std::vector<models::NamedBlock>{{"all", std::make_shared<Idle>()}};
    });
    for (const models::Parameter& parameter : model->parameters())
      at::Tensor(parameter.tensor.detach()).fill_(0.5);
    model->freeze([](const models::Parameter& parameter) { return parameter.name == "all.used"; });
    return model;
  };
  const auto create = [](std::vector<optim::OptimizedParameter> parts) {
    return optim::create_optimizer(optim::SgdSpec{}, std::move(parts));
  };
  const auto strategy = Sharded::create(unused(), create, options_of(2), system_clock()).value();
  const comm::LeafOwners owners = comm::even_owners(kSlices, 1);
  ASSERT_TRUE(strategy->enter(comm::create_loopback(1).front(), owners));
  EXPECT_EQ(one_step(*strategy, slices_of(owners, Rank{0}), 1).grad_norm, 0);
  EXPECT_TRUE(at::equal(strategy->model().parameters()[0].tensor, at::full({3, 4}, 0.5)));
}

// Where sums come in any order, ranks still have the same weights, near those of ordered mode.
TEST(Sharded, FastMode) {
  const Recipe recipe{models::MlpSpec{.inputs = kImage * kImage, .hidden = {70}}, optim::SgdSpec{}};
  SliceOptions options = options_of(2);
  const auto plain = plain_of(recipe, options);
  const double expected = train(*plain, comm::create_loopback(1).front()).grad_norm;
  options.ordered = false;
  const auto outcomes = train_sharded(recipe, 3, options);
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.model, outcomes.front().model);
    EXPECT_NEAR(outcome.grad_norm, expected, 1e-5 * expected);
  }
}

// As after a resume: what was loaded before the first generation is cut then.
TEST(Sharded, CutsTheStateThatWasLoaded) {
  const Recipe recipe{kMlp, optim::AdamWSpec{}};
  const auto load = [](Strategy& from, Strategy& to) {
    const auto copy = [](const std::vector<StateSlice>& a, const std::vector<StateSlice>& b) {
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i)
        std::ranges::copy(a[i].tensor.bytes, b[i].tensor.bytes.begin());
    };
    copy(from.model_state(), to.model_state());
    const auto sorted = [](std::vector<StateSlice> state) {
      std::ranges::sort(state, {}, &StateSlice::name);
      return state;
    };
    copy(sorted(from.optimizer_state()), sorted(to.optimizer_state()));
    to.loaded(4);
  };
  const auto first = plain_of(recipe, options_of(1));
  train(*first, comm::create_loopback(1).front());
  const auto again = plain_of(recipe, options_of(1));
  load(*first, *again);
  const Outcome expected = train(*again, comm::create_loopback(1).front());

  const auto communicators = comm::create_loopback(3);
  std::vector<std::unique_ptr<Sharded>> strategies;
  for (int r = 0; r < 3; ++r) {
    strategies.push_back(sharded_of(recipe, options_of(1)));
    load(*first, *strategies.back());
  }
  std::vector<Outcome> outcomes(3);
  std::vector<std::jthread> ranks;
  for (std::size_t r = 0; r < 3; ++r)
    ranks.emplace_back([&, r] { outcomes[r] = train(*strategies[r], communicators[r]); });
  ranks.clear();
  EXPECT_EQ(outcomes[2].model, expected.model);
  EXPECT_EQ(outcomes[0].optimizer, expected.optimizer);
}

// Whoever cannot evaluate the average goes on with the trained weights, however far it came.
TEST(Sharded, AnAverageThatDoesNotComeLeavesTheTrainedWeights) {
  const Recipe recipe{.model = kMlp, .optimizer = optim::SgdSpec{}, .average = 0.9};
  for (const std::string last : {"parameters/1", "parameters/2"}) {
    auto ranks = comm::create_loopback(2);
    std::atomic<bool> breaks{false};
    std::vector<std::thread> threads;
    for (const auto& communicator : ranks)
      threads.emplace_back([&, communicator] {
        const auto strategy = sharded_of(recipe, in_stage(2, options_of(1)));
        const auto faulty =
            comm::with_faults(communicator, [&](const comm::Op&, const comm::OpOptions& options) {
              return breaks && options.label == last
                         ? std::optional(fail(ErrorCode::kPeerLost, "gone"))
                         : std::nullopt;
            });
        train(*strategy, faulty);
        const std::string trained = hash_of(strategy->model_state());
        ASSERT_TRUE(faulty->submit(comm::Barrier{}, {}).wait());
        breaks = true;
        EXPECT_FALSE(strategy->use_average(true));
        EXPECT_EQ(hash_of(strategy->model_state()), trained) << "without " << last;
      });
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(Sharded, RefusesAnotherNumberOfRanks) {
  const auto strategy = sharded_of({kMlp, optim::SgdSpec{}}, options_of(1));
  const auto two = comm::create_loopback(2);
  std::jthread other([&] {
    const auto peer = sharded_of({kMlp, optim::SgdSpec{}}, options_of(1));
    EXPECT_TRUE(peer->enter(two[1], comm::even_owners(kSlices, 2)));
  });
  ASSERT_TRUE(strategy->enter(two[0], comm::even_owners(kSlices, 2)));
  const Status status =
      strategy->enter(comm::create_loopback(1).front(), comm::even_owners(kSlices, 1));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(status.error().message, testing::HasSubstr("--resume"));
}

}  // namespace
}  // namespace muster::parallel::shards
