#include "muster/parallel/sharded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>

#include "muster/base/glob.h"
#include "muster/base/hash.h"
#include "muster/comm/backend/loopback/loopback.h"
#include "muster/models/create.h"
#include "muster/parallel/data_parallel.h"
#include "muster/parallel/testing/toy_batch.h"

namespace muster::parallel {
namespace {

struct Recipe {
  models::ModelSpec model;
  optim::OptimizerSpec optimizer;
  std::vector<std::string> freeze = {};  // patterns
  double average = 0;                    // AverageSpec::decay
  models::AdapterSpec adapters = {};
};
void PrintTo(const Recipe& recipe, std::ostream* out) {
  constexpr std::string_view kOptimizers[] = {" sgd", " adamw", " lars", " lamb"};
  *out << models::family_of(recipe.model) << kOptimizers[recipe.optimizer.index()];
  if (!recipe.freeze.empty()) *out << " without " << recipe.freeze.front();
  if (recipe.average > 0) *out << " averaged";
  if (recipe.adapters.rank > 0) *out << " adapted";
}

const models::ModelSpec kMlp =
    models::MlpSpec{.inputs = kImage * kImage, .hidden = {70, 33}, .dropout = 0.3};
const models::ModelSpec kResNet =
    models::ResNetSpec{.channels = {8, 16}, .dropout = 0.1, .channels_last = true};

const models::ModelSpec kMoe = models::MoeSpec{
    .body = models::GptSpec{.context = kContext, .width = 16, .layers = 2, .heads = 2, .hidden = 8},
    .experts = 5,
    .experts_per_token = 1,
    .sparse_step = 2};

SliceOptions options_of(std::int32_t lanes) {
  return {.lanes = lanes, .max_grad_norm = 0.5, .seed = 3, .bucket_sizes = {1 << 10, 1 << 12}};
}

std::unique_ptr<models::Model> model_of(const Recipe& recipe) {
  auto model = models::create_model(recipe.model, recipe.adapters).value();
  model->initialize(1);
  model->freeze([&](const models::Parameter& parameter) {
    return matches_any(recipe.freeze, parameter.name);
  });
  return model;
}

std::unique_ptr<Sharded> sharded_of(const Recipe& recipe, const SliceOptions& options) {
  const auto create = [recipe](std::vector<optim::OptimizedParameter> parts) {
    return optim::create_optimizer(recipe.optimizer, std::move(parts), {.decay = recipe.average});
  };
  return Sharded::create(model_of(recipe), create, options, system_clock()).value();
}

std::unique_ptr<SliceStrategy> plain_of(const Recipe& recipe, const SliceOptions& options) {
  auto model = model_of(recipe);
  std::vector<optim::OptimizedParameter> parameters;
  for (const models::Parameter& p : model->parameters())
    parameters.push_back({p.name, p.tensor, p.decays});
  auto optimizer =
      optim::create_optimizer(recipe.optimizer, parameters, {.decay = recipe.average}).value();
  return std::make_unique<DataParallel>(std::move(model), std::move(optimizer), options,
                                        system_clock());
}

std::string hash_of(std::vector<StateSlice> state) {
  std::ranges::sort(state, {}, &StateSlice::name);
  Sha256 hash;
  for (const StateSlice& slice : state) {
    hash.update(std::as_bytes(std::span(slice.name)));
    hash.update(slice.tensor.bytes);
  }
  return to_hex(hash.finish());
}

struct Outcome {
  std::string model;
  std::string optimizer;  // gathered on the first rank
  double grad_norm = 0;
  std::uint64_t held = 0;  // bytes of optimizer state
  double average_loss = 0;
};

// Of the averaged weights; the trained ones are back afterwards.
double average_loss_of(SliceStrategy& strategy, const std::vector<std::int32_t>& mine) {
  const std::string trained = hash_of(strategy.model_state());
  const auto evaluated = [&] {
    const Batch batch(21, mine, 9);
    std::vector<EvaluationTotals> by_slice(kSlices);
    EXPECT_TRUE(strategy.evaluate(batch.step, by_slice));
    return strategy.combine(by_slice).value().loss;
  };
  const double plain = evaluated();
  EXPECT_TRUE(strategy.use_average(true));
  EXPECT_NE(hash_of(strategy.model_state()), trained);
  const double loss = evaluated();
  EXPECT_NE(loss, plain);
  EXPECT_TRUE(strategy.use_average(false));
  EXPECT_EQ(hash_of(strategy.model_state()), trained);
  return loss;
}

struct Conduct {
  bool averages = false;
  bool scales = false;  // the loss, as in fp16; the second step overflows
};
Conduct conduct_of(const Recipe& recipe, const SliceOptions& options) {
  return {recipe.average > 0, options.compute.precision == models::Precision::kF16};
}

StepReport one_step(SliceStrategy& strategy, const std::vector<std::int32_t>& mine,
                    std::int64_t step, bool scales = false) {
  const auto kind =
      strategy.model().family() == "moe" ? Batch::Content::kTokens : Batch::Content::kImages;
  const Batch batch(step == 4 ? 5 : 21, mine, static_cast<std::uint64_t>(step), kind);
  const double scale = step == 2 ? 1e30 : 1024;
  auto report = strategy.step({.batch = batch.step,
                               .step = Step{step},
                               .learning_rate = 0.05,
                               .flags = {},
                               .before_update = {},
                               .loss_scale = scales ? std::optional(scale) : std::nullopt});
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  return report ? *report : StepReport{};
}

// Four steps, the last of a short batch.
Outcome train(SliceStrategy& strategy, const std::shared_ptr<comm::Communicator>& communicator,
              const Conduct& conduct = {}) {
  const comm::Group group = communicator->group();
  const comm::LeafOwners owners = comm::even_owners(kSlices, group.size);
  EXPECT_TRUE(strategy.enter(communicator, owners));
  Outcome outcome;
  for (std::int64_t step = 1; step <= 4; ++step) {
    const auto report = one_step(strategy, slices_of(owners, group.rank), step, conduct.scales);
    EXPECT_EQ(report.overflow.has_value(), conduct.scales && step == 2);
    outcome.grad_norm = report.grad_norm;
  }
  if (conduct.averages)
    outcome.average_loss = average_loss_of(strategy, slices_of(owners, group.rank));
  outcome.model = hash_of(strategy.model_state());
  for (const StateSlice& slice : strategy.optimizer_state())
    outcome.held += slice.tensor.bytes.size();
  auto gathered = strategy.gather_state(Rank{0});
  EXPECT_TRUE(gathered) << (gathered ? "" : gathered.error().message);
  if (gathered) outcome.optimizer = hash_of(gathered->optimizer);
  return outcome;
}

std::vector<Outcome> train_sharded(const Recipe& recipe, std::int32_t size,
                                   const SliceOptions& options) {
  const auto communicators = comm::create_loopback(size);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(size));
  std::vector<std::jthread> ranks;
  for (std::size_t r = 0; r < outcomes.size(); ++r)
    ranks.emplace_back([&, r] {
      const auto strategy = sharded_of(recipe, options);
      outcomes[r] = train(*strategy, communicators[r], conduct_of(recipe, options));
    });
  ranks.clear();
  return outcomes;
}

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

INSTANTIATE_TEST_SUITE_P(
    Recipes, ZeroOne,
    testing::Values(Recipe{kMlp, optim::SgdSpec{.weight_decay = 1e-3}},
                    Recipe{kMlp, optim::AdamWSpec{.decay_norms_and_biases = false}},
                    Recipe{kResNet, optim::SgdSpec{.nesterov = true}},
                    Recipe{kResNet, optim::LarsSpec{.weight_decay = 1e-3}},
                    Recipe{kMlp, optim::LambSpec{}},
                    Recipe{kResNet, optim::AdamWSpec{}, {"stem*", "*.bias"}},
                    Recipe{kMlp, optim::LambSpec{}, {"head*"}},
                    Recipe{kResNet, optim::SgdSpec{}, {"stem*"}, 0.9},
                    Recipe{kMlp, optim::LambSpec{}, {}, 0.9}, Recipe{kMoe, optim::AdamWSpec{}},
                    Recipe{kMoe, optim::AdamWSpec{}, {}, 0, {.rank = 2, .dropout = 0.2}}));

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
    auto model = std::make_unique<models::Model>("unused", [] {
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
    to.set_optimizer_steps(4);
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
}  // namespace muster::parallel
