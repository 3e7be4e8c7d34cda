// Training over ranks that each hold a part of every tensor comes to what one rank alone does, but
// for rounding; how many replicas there are changes no bit.
#include "muster/parallel/tensor/tensor_parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/glob.h"
#include "muster/comm/backend/loopback/loopback.h"
#include "muster/models/create.h"
#include "muster/parallel/data_parallel.h"
#include "muster/parallel/testing/toy_batch.h"

namespace muster::parallel {
namespace {

constexpr std::uint64_t kSeed = 5;
constexpr int kSteps = 10;

struct Recipe {
  std::string name;
  models::ModelSpec model;
  std::int32_t ranks = 2;
  std::int32_t replicas = 1;
  optim::OptimizerSpec optimizer = optim::SgdSpec{.weight_decay = 1e-3};
  std::int64_t micro_batch_size = 0;
  std::vector<std::string> freeze = {};  // patterns
  double average = 0;                    // AverageSpec::decay
  double smoothing = 0;
  bool sequence = false;                    // Cut::sequence
  std::vector<std::string> recompute = {};  // patterns; where it is cut only
  models::Precision precision = models::Precision::kF32;
  // How far a tensor may be from the other one, for its largest value; 10 steps in f32.
  double tolerance = 2e-5;
};
std::string name_of(const testing::TestParamInfo<Recipe>& info) { return info.param.name; }
void PrintTo(const Recipe& recipe, std::ostream* out) { *out << recipe.name; }

auto optimizer_of(const Recipe& recipe) {
  return [recipe](std::vector<optim::OptimizedParameter> parameters) {
    return optim::create_optimizer(recipe.optimizer, std::move(parameters),
                                   {.decay = recipe.average});
  };
}

std::unique_ptr<models::Model> model_of(const Recipe& recipe) {
  auto model = *models::create_model(recipe.model);
  model->smooth_labels(recipe.smoothing);
  model->freeze([&](const models::Parameter& parameter) {
    return matches_any(recipe.freeze, parameter.name);
  });
  return model;
}

SliceOptions options_of(const Recipe& recipe) {
  return {.virtual_workers = kSlices,
          .micro_batch_size = recipe.micro_batch_size,
          .max_grad_norm = 0.5,
          .compute = {.precision = recipe.precision},
          .seed = kSeed,
          .bucket_sizes = {.first_bytes = 1 << 10, .bytes = 1 << 12}};
}

// In fp16 the third step overflows.
std::optional<double> loss_scale_of(const Recipe& recipe, int step) {
  if (recipe.precision != models::Precision::kF16) return std::nullopt;
  return step == 3 ? 1e30 : 1024;
}

struct Outcome {
  std::map<std::string, at::Tensor> state;  // on the first rank: whole tensors
  std::vector<std::string> order;           // of their names
  std::map<std::string, at::Tensor> own;    // parameters that this rank holds whole
  double loss = 0, grad_norm = 0, evaluation = 0, correct = 0, average_evaluation = 0;
  int overflows = 0;
  bool stopped = false;
};

comm::LeafOwners owners_of(const ModelStrategy& strategy, std::int32_t ranks) {
  const std::int32_t together = strategy.ranks_per_replica();
  comm::LeafOwners owners = comm::even_owners(kSlices, ranks / together);
  for (Rank& owner : owners) owner = Rank{to_int(owner) * together};
  return owners;
}

void add(Outcome& outcome, const std::vector<StateSlice>& slices) {
  for (const StateSlice& slice : slices) {
    ASSERT_EQ(slice.tensor.shape, slice.global_shape) << slice.name;
    EXPECT_TRUE(outcome.state.emplace(slice.name, tensor_over(slice.tensor).clone()).second);
    outcome.order.push_back(slice.name);
  }
}

double evaluate(ModelStrategy& strategy, const Batch& batch, double* correct = nullptr) {
  std::vector<EvaluationTotals> by_slice(kSlices);
  EXPECT_TRUE(strategy.evaluate(batch.step, by_slice));
  const auto totals = strategy.combine(by_slice);
  EXPECT_TRUE(totals);
  if (correct) *correct = totals->correct;
  return totals->loss;
}

// Short batches and empty slices among them. The last rank alone wants to stop at the last step.
Outcome train(ModelStrategy& strategy, const std::shared_ptr<comm::Communicator>& communicator,
              const Recipe& recipe) {
  const comm::Group group = communicator->group();
  const comm::LeafOwners owners = owners_of(strategy, group.size);
  const std::int32_t together = strategy.ranks_per_replica();
  const auto mine = slices_of(owners, Rank{to_int(group.rank) / together * together});
  const auto content = content_of(recipe.model);
  const auto entered = strategy.enter(communicator, owners);
  EXPECT_TRUE(entered) << (entered ? "" : entered.error().message);
  Outcome outcome;
  for (int step = 1; step <= kSteps; ++step) {
    const std::int64_t samples[] = {40, 33, 7};
    const Batch batch(samples[step % 3], mine, static_cast<std::uint64_t>(step), content);
    Flags flags;
    if (step == kSteps && to_int(group.rank) == group.size - 1) flags.set(Flag::kStop);
    const auto report = strategy.step({.batch = batch.step,
                                       .step = Step{step},
                                       .learning_rate = 0.02,
                                       .flags = flags,
                                       .before_update = {},
                                       .loss_scale = loss_scale_of(recipe, step)});
    EXPECT_TRUE(report) << (report ? "" : report.error().message);
    if (!report) return outcome;
    outcome.overflows += report->overflow.has_value();
    outcome.loss = report->loss;
    outcome.grad_norm = report->grad_norm;
    outcome.stopped = report->flags.has(Flag::kStop);
  }
  const Batch batch(21, mine, 99, content);
  outcome.evaluation = evaluate(strategy, batch, &outcome.correct);
  if (recipe.average > 0) {
    EXPECT_TRUE(strategy.use_average(true));
    outcome.average_evaluation = evaluate(strategy, batch);
    EXPECT_TRUE(strategy.use_average(false));
    EXPECT_EQ(evaluate(strategy, batch), outcome.evaluation);
  }
  const auto state = strategy.gather_state(Rank{0});
  EXPECT_TRUE(state) << (state ? "" : state.error().message);
  if (!state) return outcome;
  add(outcome, state->model);
  add(outcome, state->optimizer);
  for (const models::Parameter& parameter : strategy.model().parameters())
    if (!parameter.cut.is_part()) outcome.own[parameter.name] = parameter.tensor.detach().clone();
  return outcome;
}

Outcome train_plain(const Recipe& recipe) {
  auto model = model_of(recipe);
  model->initialize(kSeed);
  std::vector<optim::OptimizedParameter> parameters;
  for (const models::Parameter& parameter : model->parameters())
    parameters.push_back({parameter.name, parameter.tensor, parameter.decays});
  DataParallel strategy(std::move(model), *optimizer_of(recipe)(std::move(parameters)),
                        options_of(recipe), system_clock());
  return train(strategy, comm::create_loopback(1).front(), recipe);
}

std::vector<Outcome> train_cut(const Recipe& recipe) {
  const std::int32_t size = recipe.ranks * recipe.replicas;
  const auto communicators = comm::create_loopback(size);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(size));
  std::vector<std::jthread> ranks;
  for (std::size_t r = 0; r < outcomes.size(); ++r)
    ranks.emplace_back([&, r] {
      auto model = model_of(recipe);
      model->recompute(
          [&](const std::string& block) { return matches_any(recipe.recompute, block); });
      auto strategy = TensorParallel::create(std::move(model), {recipe.ranks, recipe.sequence},
                                             optimizer_of(recipe), options_of(recipe),
                                             communicators[r]->group(), system_clock());
      ASSERT_TRUE(strategy) << strategy.error().message;
      outcomes[r] = train(**strategy, communicators[r], recipe);
    });
  ranks.clear();
  return outcomes;
}

double apart(const at::Tensor& found, const at::Tensor& wanted) {
  const double largest = wanted.abs().max().item<double>();
  return (found - wanted).abs().max().item<double>() / std::max(largest, 1e-3);
}

void expect_same_bits(const Outcome& found, const Outcome& wanted) {
  EXPECT_EQ(found.order, wanted.order);
  for (const auto& [name, tensor] : wanted.state)
    EXPECT_TRUE(torch::equal(found.state.at(name), tensor)) << name;
  EXPECT_EQ(found.loss, wanted.loss);
  EXPECT_EQ(found.grad_norm, wanted.grad_norm);
  EXPECT_EQ(found.evaluation, wanted.evaluation);
  EXPECT_EQ(found.average_evaluation, wanted.average_evaluation);
}

class TensorParallelTraining : public testing::TestWithParam<Recipe> {};

TEST_P(TensorParallelTraining, IsThatOfOneRankButForRounding) {
  const Recipe& recipe = GetParam();
  const Outcome plain = train_plain(recipe);
  const std::vector<Outcome> ranks = train_cut(recipe);
  EXPECT_EQ(ranks.front().order, plain.order);
  for (const auto& [name, tensor] : plain.state)
    EXPECT_LT(apart(ranks.front().state.at(name), tensor), recipe.tolerance) << name;
  for (const Outcome& rank : ranks) {
    EXPECT_NEAR(rank.loss, plain.loss, recipe.tolerance * plain.loss);
    EXPECT_NEAR(rank.grad_norm, plain.grad_norm, recipe.tolerance * plain.grad_norm * 10);
    EXPECT_NEAR(rank.evaluation, plain.evaluation, recipe.tolerance * plain.evaluation);
    EXPECT_NEAR(rank.average_evaluation, plain.average_evaluation,
                recipe.tolerance * plain.evaluation);
    EXPECT_EQ(rank.overflows, plain.overflows);
    EXPECT_TRUE(rank.stopped);
    EXPECT_EQ(rank.loss, ranks.front().loss);  // all decide alike
    EXPECT_EQ(rank.grad_norm, ranks.front().grad_norm);
    EXPECT_EQ(rank.evaluation, ranks.front().evaluation);
  }
}

TEST_P(TensorParallelTraining, KeepsWhatIsNotCutAlikeOnAllRanks) {
  const std::vector<Outcome> ranks = train_cut(GetParam());
  EXPECT_FALSE(ranks.front().own.empty());
  for (const Outcome& rank : ranks)
    for (const auto& [name, tensor] : ranks.front().own)
      EXPECT_TRUE(torch::equal(rank.own.at(name), tensor)) << name;
}

TEST_P(TensorParallelTraining, HasTheSameBitsWithAnyNumberOfReplicas) {
  Recipe recipe = GetParam();
  const std::vector<Outcome> ranks = train_cut(recipe);
  recipe.replicas = recipe.replicas == 1 ? 3 : 1;
  recipe.recompute = {};
  expect_same_bits(train_cut(recipe).front(), ranks.front());
}

models::MlpSpec mlp() { return {.inputs = 64, .hidden = {32, 24, 17}, .dropout = 0.1}; }

models::GptSpec gpt(bool tied) {
  return {.vocabulary = 64,
          .context = kContext,
          .width = 24,
          .layers = 2,
          .heads = 12,
          .dropout = 0.1,
          .tied_head = tied};
}

models::LlamaSpec llama() {
  return {.vocabulary = 64,
          .context = kContext,
          .width = 24,
          .layers = 2,
          .heads = 12,
          .kv_heads = 6,
          .hidden = 40,
          .dropout = 0.1};
}

// Its steps are those of gradients far above the rounding: an epsilon below would make rounding
// noise, as in biases of keys, whose gradients are zero, into steps of the learning rate.
constexpr optim::AdamWSpec kAdamW{.epsilon = 1e-3, .weight_decay = 0.1};

INSTANTIATE_TEST_SUITE_P(
    Models, TensorParallelTraining,
    testing::Values(
        Recipe{"mlp_2", mlp(), 2}, Recipe{"mlp_3", mlp(), 3, 1, kAdamW},
        Recipe{"mlp_4", mlp(), 4, 1, optim::SgdSpec{.nesterov = true}},
        Recipe{"mlp_2x2", mlp(), 2, 2, kAdamW, 2}, Recipe{"gpt_2", gpt(true), 2, 1, kAdamW},
        Recipe{"gpt_3", gpt(false), 3}, Recipe{"gpt_4", gpt(true), 4, 1, kAdamW, 3},
        Recipe{"gpt_2x2", gpt(true), 2, 2}, Recipe{"llama_2", llama(), 2, 1, kAdamW},
        Recipe{"llama_3x2", llama(), 3, 2}, Recipe{"llama_2x2", llama(), 2, 2, kAdamW, 1},
        Recipe{.name = "gpt_frozen",
               .model = gpt(true),
               .ranks = 3,
               .freeze = {"embedding.token*", "layer0*"}},
        Recipe{.name = "mlp_average", .model = mlp(), .replicas = 2, .average = 0.9},
        Recipe{.name = "gpt_average_smoothed",
               .model = gpt(true),
               .ranks = 3,
               .optimizer = kAdamW,
               .average = 0.9,
               .smoothing = 0.2},
        Recipe{.name = "gpt_sequence", .model = gpt(true), .ranks = 3, .sequence = true},
        Recipe{.name = "gpt_sequence_recomputed",
               .model = gpt(false),
               .ranks = 2,
               .replicas = 2,
               .optimizer = kAdamW,
               .smoothing = 0.1,
               .sequence = true,
               .recompute = {"layer*"}},
        Recipe{.name = "llama_sequence_bf16",
               .model = llama(),
               .ranks = 3,
               .sequence = true,
               .precision = models::Precision::kBF16,
               .tolerance = 0.05},
        Recipe{.name = "llama_recomputed", .model = llama(), .ranks = 2, .recompute = {"layer*"}},
        Recipe{.name = "gpt_recomputed",
               .model = gpt(true),
               .ranks = 2,
               .replicas = 2,
               .recompute = {"*"}},
        Recipe{.name = "gpt_bf16",
               .model = gpt(true),
               .ranks = 2,
               .precision = models::Precision::kBF16,
               .tolerance = 0.05},
        Recipe{.name = "llama_fp16",
               .model = llama(),
               .ranks = 3,
               .precision = models::Precision::kF16,
               .tolerance = 0.01}),
    name_of);

TEST(TensorParallel, OfOneRankHasTheBitsOfPlainTraining) {
  const Recipe recipe{.name = "gpt", .model = gpt(true), .ranks = 1, .replicas = 2};
  expect_same_bits(train_cut(recipe).front(), train_plain(recipe));
}

Result<std::unique_ptr<TensorParallel>> make(const Recipe& recipe, const comm::Group& group,
                                             const comm::OpOptions& op = {}) {
  SliceOptions options = options_of(recipe);
  options.op = op;
  return TensorParallel::create(model_of(recipe), {recipe.ranks, recipe.sequence},
                                optimizer_of(recipe), options, group, system_clock());
}

TEST(TensorParallel, RefusesNormsOfWholeTensors) {
  const Recipe recipe{.name = "mlp", .model = mlp(), .optimizer = optim::LambSpec{}};
  const auto made = make(recipe, {.size = 2});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kUnsupported);
}

TEST(TensorParallel, RefusesWorkersThatAreNoMultiple) {
  const auto made = make({.name = "mlp", .model = mlp(), .ranks = 2}, {.size = 3});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kInvalid);
}

TEST(TensorParallel, HoldsItsPartOnly) {
  const Recipe recipe{.name = "gpt", .model = gpt(true), .ranks = 4};
  const auto made = make(recipe, {.size = 4});
  ASSERT_TRUE(made);
  const std::int64_t whole = model_of(recipe)->parameter_count();
  EXPECT_EQ((*made)->parameter_count(), whole);
  EXPECT_LT((*made)->model().parameter_count(), whole / 3);
  EXPECT_LT((*made)->optimizer_bytes(4), static_cast<std::uint64_t>(whole) * 4 / 3);
}

// The rank that waits names the one that is gone.
TEST(TensorParallel, NamesWhoDoesNotCome) {
  const auto communicators = comm::create_loopback(2);
  const Recipe recipe{.name = "gpt", .model = gpt(true)};
  std::vector<std::jthread> ranks;
  for (std::size_t r = 0; r < 2; ++r)
    ranks.emplace_back([&, r] {
      auto strategy =
          *make(recipe, communicators[r]->group(),
                {.timeout = std::chrono::milliseconds(r == 0 ? 300 : 30000), .label = {}});
      const comm::LeafOwners owners = owners_of(*strategy, 2);
      ASSERT_TRUE(strategy->enter(communicators[r], owners));
      if (r == 1) return;
      const Batch batch(40, slices_of(owners, Rank{0}), 3, content_of(recipe.model));
      const auto report = strategy->step({.batch = batch.step,
                                          .step = Step{1},
                                          .learning_rate = 0.02,
                                          .flags = {},
                                          .before_update = {}});
      ASSERT_FALSE(report);
      EXPECT_EQ(report.error().peer, Rank{1}) << report.error().message;
    });
}

}  // namespace
}  // namespace muster::parallel
