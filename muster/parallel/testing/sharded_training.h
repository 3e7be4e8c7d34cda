#pragma once
// Four steps of trainings in shards, of many kinds, and what they come to. For tests.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/glob.h"
#include "muster/base/hash.h"
#include "muster/comm/backend/loopback/loopback.h"
#include "muster/models/create.h"
#include "muster/models/device.h"
#include "muster/parallel/data_parallel.h"
#include "muster/parallel/sharded.h"
#include "muster/parallel/testing/toy_batch.h"
#include "muster/parallel/testing/zero_stage.h"

namespace muster::parallel::shards {

struct Recipe {
  models::ModelSpec model;
  optim::OptimizerSpec optimizer;
  std::vector<std::string> freeze = {};  // patterns
  double average = 0;                    // AverageSpec::decay
  models::AdapterSpec adapters = {};
  bool recomputed = false;         // all blocks, where they are sharded
  c10::Device device = c10::kCPU;  // where the model lies
};
inline void PrintTo(const Recipe& recipe, std::ostream* out) {
  constexpr std::string_view kOptimizers[] = {" sgd", " adamw", " lars", " lamb"};
  *out << models::family_of(recipe.model) << kOptimizers[recipe.optimizer.index()];
  if (!recipe.freeze.empty()) *out << " without " << recipe.freeze.front();
  if (recipe.average > 0) *out << " averaged";
  if (recipe.adapters.rank > 0) *out << " adapted";
  if (recipe.recomputed) *out << " recomputed";
}

inline const models::ModelSpec kMlp =
    models::MlpSpec{.inputs = kImage * kImage, .hidden = {70, 33}, .dropout = 0.3};
inline const models::ModelSpec kResNet =
    models::ResNetSpec{.channels = {8, 16}, .dropout = 0.1, .channels_last = true};

inline const models::ModelSpec kMoe = models::MoeSpec{
    .body = models::GptSpec{.context = kContext, .width = 16, .layers = 2, .heads = 2, .hidden = 8},
    .experts = 5,
    .experts_per_token = 1,
    .sparse_step = 2};

// The head has the weights of the embedding, two blocks away.
inline const models::ModelSpec kGpt = models::GptSpec{
    .context = kContext, .width = 16, .layers = 3, .heads = 2, .hidden = 24, .dropout = 0.1};
inline const models::ModelSpec kLlama = models::LlamaSpec{
    .context = kContext, .width = 16, .layers = 2, .heads = 4, .kv_heads = 2, .hidden = 24};

inline SliceOptions options_of(std::int32_t lanes) {
  return {.lanes = lanes, .max_grad_norm = 0.5, .seed = 3, .bucket_sizes = {1 << 10, 1 << 12}};
}

inline std::unique_ptr<models::Model> model_of(const Recipe& recipe) {
  const models::ScopedDevice here(recipe.device);
  auto model = models::create_model(recipe.model, recipe.adapters).value();
  model->initialize(1);
  model->freeze([&](const models::Parameter& parameter) {
    return matches_any(recipe.freeze, parameter.name);
  });
  return model;
}

inline std::unique_ptr<Sharded> sharded_of(const Recipe& recipe, const SliceOptions& options,
                                           std::optional<std::int32_t> shards = {}) {
  const auto create = [recipe](std::vector<optim::OptimizedParameter> parts) {
    return optim::create_optimizer(recipe.optimizer, std::move(parts), {.decay = recipe.average});
  };
  auto model = model_of(recipe);
  model->recompute([&](const std::string&) { return recipe.recomputed; });
  return Sharded::create(std::move(model), create, options, system_clock(), shards).value();
}

inline std::unique_ptr<SliceStrategy> plain_of(const Recipe& recipe, const SliceOptions& options) {
  auto model = model_of(recipe);
  std::vector<optim::OptimizedParameter> parameters;
  for (const models::Parameter& p : model->parameters())
    parameters.push_back({p.name, p.tensor, p.decays});
  auto optimizer =
      optim::create_optimizer(recipe.optimizer, parameters, {.decay = recipe.average}).value();
  return std::make_unique<DataParallel>(std::move(model), std::move(optimizer), options,
                                        system_clock());
}

inline std::string hash_of(std::vector<StateSlice> state) {
  std::ranges::sort(state, {}, &StateSlice::name);
  Sha256 hash;
  for (const StateSlice& slice : state) {
    hash.update(std::as_bytes(std::span(slice.name)));
    hash.update(slice.tensor.bytes);
  }
  return to_hex(hash.finish());
}

struct Outcome {
  std::string model;      // where ranks hold parts of it: gathered on the first rank, else empty
  std::string optimizer;  // gathered on the first rank
  double grad_norm = 0;
  std::uint64_t held = 0;  // bytes of optimizer state
  double average_loss = 0;
};

inline Batch::Content content_for(const SliceStrategy& strategy) {
  const std::string& family = strategy.model().family();
  const bool images = family == "mlp" || family == "resnet";
  return images ? Batch::Content::kImages : Batch::Content::kTokens;
}

// Of the averaged weights; the trained ones are back afterwards.
inline double average_loss_of(SliceStrategy& strategy, const std::vector<std::int32_t>& mine) {
  const std::string trained = hash_of(strategy.model_state());
  const auto evaluated = [&] {
    const Batch batch(21, mine, 9, content_for(strategy));
    std::vector<EvaluationTotals> by_slice(kSlices);
    EXPECT_TRUE(strategy.evaluate(batch.step, by_slice));
    return strategy.combine(by_slice).value().loss;
  };
  const double plain = evaluated();
  EXPECT_TRUE(strategy.use_average(true));
  const bool has_some = strategy.holds_all() || !strategy.optimizer_state().empty();
  EXPECT_EQ(hash_of(strategy.model_state()) != trained, has_some);
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
inline Conduct conduct_of(const Recipe& recipe, const SliceOptions& options) {
  return {recipe.average > 0, options.compute.precision == models::Precision::kF16};
}

inline StepReport one_step(SliceStrategy& strategy, const std::vector<std::int32_t>& mine,
                           std::int64_t step, bool scales = false) {
  const Batch batch(step == 4 ? 5 : 21, mine, static_cast<std::uint64_t>(step),
                    content_for(strategy));
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

inline comm::LeafOwners owners_for(const Strategy& strategy, std::int32_t size) {
  const std::int32_t in_turns = strategy.ranks_in_turns(size);
  comm::LeafOwners owners;
  for (std::int32_t first = 0; first < size; first += in_turns) {
    std::vector<std::int32_t> counts;
    for (std::int32_t rank = first; rank < first + in_turns; ++rank)
      counts.push_back(comm::even_share(kSlices, size, rank).size());
    for (const Rank owner : comm::owners_in_turns(counts))
      owners.push_back(Rank{to_int(owner) + first});
  }
  return owners;
}

// Four steps, the last of a short batch.
inline Outcome train(SliceStrategy& strategy,
                     const std::shared_ptr<comm::Communicator>& communicator,
                     const Conduct& conduct = {}, comm::LeafOwners owners = {}) {
  const comm::Group group = communicator->group();
  if (owners.empty()) owners = owners_for(strategy, group.size);
  EXPECT_TRUE(strategy.enter(communicator, owners));
  Outcome outcome;
  for (std::int64_t step = 1; step <= 4; ++step) {
    const auto report = one_step(strategy, slices_of(owners, group.rank), step, conduct.scales);
    EXPECT_EQ(report.overflow.has_value(), conduct.scales && step == 2);
    outcome.grad_norm = report.grad_norm;
  }
  if (conduct.averages)
    outcome.average_loss = average_loss_of(strategy, slices_of(owners, group.rank));
  for (const StateSlice& slice : strategy.optimizer_state())
    outcome.held += slice.tensor.bytes.size();
  auto gathered = strategy.gather_state(Rank{0});
  EXPECT_TRUE(gathered) << (gathered ? "" : gathered.error().message);
  if (!gathered) return outcome;
  outcome.optimizer = hash_of(gathered->optimizer);
  if (strategy.holds_all())
    outcome.model = hash_of(strategy.model_state());
  else if (group.rank == Rank{0})
    outcome.model = hash_of(gathered->model);
  return outcome;
}

// One rank, which holds everything.
inline Outcome train_plain(const Recipe& recipe, const SliceOptions& options) {
  const auto plain = plain_of(recipe, options);
  return train(*plain, comm::create_loopback(1).front(), conduct_of(recipe, options));
}

inline std::vector<Outcome> train_sharded(const Recipe& recipe, std::int32_t size,
                                          const SliceOptions& options,
                                          const comm::LeafOwners& owners = {},
                                          std::optional<std::int32_t> shards = {}) {
  const auto communicators = comm::create_loopback(size);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(size));
  std::vector<std::jthread> ranks;
  for (std::size_t r = 0; r < outcomes.size(); ++r)
    ranks.emplace_back([&, r] {
      Recipe own = recipe;  // each rank has a device of its own
      if (!own.device.is_cpu()) own.device.set_index(static_cast<c10::DeviceIndex>(r));
      const auto strategy = sharded_of(own, options, shards);
      outcomes[r] = train(*strategy, communicators[r], conduct_of(recipe, options), owners);
    });
  ranks.clear();
  return outcomes;
}

// Where ranks hold the whole model, each of them has the same; what is gathered is on the first.
inline void expect_same(const std::vector<Outcome>& outcomes, const Outcome& expected,
                        const std::string& where) {
  for (const Outcome& outcome : outcomes) {
    if (!outcome.model.empty()) {
      EXPECT_EQ(outcome.model, expected.model) << where;
    }
    EXPECT_EQ(outcome.grad_norm, expected.grad_norm) << where;
    EXPECT_EQ(outcome.average_loss, expected.average_loss) << where;
  }
  EXPECT_EQ(outcomes.front().model, expected.model) << where;
  EXPECT_EQ(outcomes.front().optimizer, expected.optimizer) << where;
}

inline const auto kRecipes = testing::Values(
    Recipe{kMlp, optim::SgdSpec{.weight_decay = 1e-3}},
    Recipe{kMlp, optim::AdamWSpec{.decay_norms_and_biases = false}},
    Recipe{kResNet, optim::SgdSpec{.nesterov = true}},
    Recipe{kResNet, optim::LarsSpec{.weight_decay = 1e-3}}, Recipe{kMlp, optim::LambSpec{}},
    Recipe{kResNet, optim::AdamWSpec{}, {"stem*", "*.bias"}},
    Recipe{kMlp, optim::LambSpec{}, {"head*"}}, Recipe{kResNet, optim::SgdSpec{}, {"stem*"}, 0.9},
    Recipe{kMlp, optim::LambSpec{}, {}, 0.9}, Recipe{kMoe, optim::AdamWSpec{}},
    Recipe{kMoe, optim::AdamWSpec{}, {}, 0, {.rank = 2, .dropout = 0.2}},
    Recipe{kMlp, optim::SgdSpec{}, {"layer1*"}, 0, {}, true},
    Recipe{kResNet, optim::SgdSpec{}, {}, 0, {}, true},
    Recipe{kMoe, optim::SgdSpec{}, {}, 0, {}, true});

}  // namespace muster::parallel::shards
