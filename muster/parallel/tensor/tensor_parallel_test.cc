// Training over ranks that each hold a part of every tensor comes to what one rank alone does, but
// for rounding; how many replicas there are changes no bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "muster/models/create.h"
#include "muster/parallel/shared_slices.h"
#include "muster/parallel/testing/cut_training.h"
#include "muster/parallel/testing/zero_stage.h"

namespace muster::parallel::cut {
namespace {

constexpr int kStepsOfTensors = 10;

struct TensorCase {
  Recipe recipe;
  std::int32_t ranks = 2;  // of a replica
  bool sequence = false;   // Cut::sequence
  // How far a tensor may be from the other one, for its largest value; 10 steps in f32.
  double tolerance = 2e-5;
  std::int32_t shards = 1;
  int zero_stage = 1;
};
void PrintTo(const TensorCase& task, std::ostream* out) { *out << task.recipe.name; }

Result<std::unique_ptr<SharedSlices>> create(const TensorCase& task, const comm::Group& group,
                                             const comm::OpOptions& op = {}) {
  SliceOptions options = in_stage(task.zero_stage, options_of(task.recipe));
  options.op = op;
  MUSTER_ASSIGN(const MeshPlace place,
                place_in(along(layout::Axis::kTensor, task.ranks, task.shards), group));
  return SharedSlices::create(recomputed_model_of(task.recipe),
                              {.cuts_sequence = task.sequence, .op = op}, optimizer_of(task.recipe),
                              options, place, system_clock());
}

std::vector<Outcome> train_cut(const TensorCase& task) {
  const auto train_rank = [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const auto strategy = create(task, communicator->group());
    EXPECT_TRUE(strategy) << (strategy ? "" : strategy.error().message);
    return strategy ? train(**strategy, communicator, task.recipe, kStepsOfTensors) : Outcome{};
  };
  return train_ranks(task.ranks * task.shards * task.recipe.replicas, train_rank);
}

void expect_same_bits(const Outcome& found, const Outcome& wanted) {
  expect_same_state(found, wanted);
  expect_same_figures(found, wanted);
}

double apart(const at::Tensor& found, const at::Tensor& wanted) {
  const double largest = wanted.abs().max().item<double>();
  return (found - wanted).abs().max().item<double>() / std::max(largest, 1e-3);
}

class TensorParallelTraining : public testing::TestWithParam<TensorCase> {
 protected:
  static const std::vector<Outcome>& ranks() {
    static Trained trained;
    return trained.once(GetParam().recipe.name, [] { return train_cut(GetParam()); });
  }
};

TEST_P(TensorParallelTraining, IsThatOfOneRankButForRounding) {
  const double tolerance = GetParam().tolerance;
  const Outcome plain = train_plain(GetParam().recipe, kStepsOfTensors);
  const std::vector<Outcome>& ranks = this->ranks();
  EXPECT_EQ(ranks.front().order, plain.order);
  for (const auto& [name, tensor] : plain.state)
    EXPECT_LT(apart(ranks.front().state.at(name), tensor), tolerance) << name;
  for (const Outcome& rank : ranks) {
    EXPECT_NEAR(rank.loss, plain.loss, tolerance * plain.loss);
    EXPECT_NEAR(rank.grad_norm, plain.grad_norm, tolerance * plain.grad_norm * 10);
    EXPECT_NEAR(rank.evaluation, plain.evaluation, tolerance * plain.evaluation);
    EXPECT_NEAR(rank.average_evaluation, plain.average_evaluation, tolerance * plain.evaluation);
    EXPECT_EQ(rank.overflows.size(), plain.overflows.size());
    EXPECT_TRUE(rank.stopped);
    EXPECT_EQ(rank.loss, ranks.front().loss);  // all decide alike
    EXPECT_EQ(rank.grad_norm, ranks.front().grad_norm);
    EXPECT_EQ(rank.evaluation, ranks.front().evaluation);
  }
}

TEST_P(TensorParallelTraining, KeepsWhatIsNotCutAlikeOnAllRanks) {
  const std::vector<Outcome>& ranks = this->ranks();
  EXPECT_FALSE(ranks.front().own.empty());
  for (const Outcome& rank : ranks)
    for (const auto& [name, tensor] : ranks.front().own)
      EXPECT_TRUE(torch::equal(rank.own.at(name), tensor)) << name;
}

TEST_P(TensorParallelTraining, HasTheSameBitsWithAnyNumberOfReplicas) {
  TensorCase task = GetParam();
  const Outcome& found = ranks().front();
  task.recipe.replicas = task.recipe.replicas == 1 ? 3 : 1;
  task.recipe.recompute = {};
  expect_same_bits(train_cut(task).front(), found);
}

constexpr optim::SgdSpec kSgd{.weight_decay = 1e-3};
// Their rates follow from norms of whole tensors.
constexpr optim::LarsSpec kScaledSgd{.weight_decay = 1e-3, .trust_coefficient = 0.5};
constexpr optim::LambSpec kScaledAdam{.epsilon = 1e-3, .weight_decay = 0.1};

using models::NormKind;

const models::GptSpec kTwoLayers = gpt(2, true);
const models::GptSpec kUntied = gpt(2, false);
// Of its experts some get no rows of a slice.
const models::MoeSpec kMixture{
    .body = kTwoLayers, .experts = 6, .experts_per_token = 1, .balance_loss = 0.1, .z_loss = 0.01};

INSTANTIATE_TEST_SUITE_P(
    Models, TensorParallelTraining,
    testing::Values(
        TensorCase{{"mlp_2", mlp(), 1, 0, kSgd}, 2}, TensorCase{{"mlp_3", mlp(), 1, 0, kSteady}, 3},
        TensorCase{{"mlp_4", mlp(), 1, 0, optim::SgdSpec{.nesterov = true}}, 4},
        TensorCase{{"mlp_2x2", mlp(), 2, 2, kSteady}, 2},
        TensorCase{{"gpt_2", kTwoLayers, 1, 0, kSteady}, 2},
        TensorCase{{"gpt_3", kUntied, 1, 0, kSgd}, 3},
        TensorCase{{"gpt_4", kTwoLayers, 1, 3, kSteady}, 4},
        TensorCase{{"gpt_2x2", kTwoLayers, 2, 0, kSgd}, 2},
        TensorCase{{"llama_2", grouped_llama(), 1, 0, kSteady}, 2},
        TensorCase{{"llama_3x2", grouped_llama(), 2, 0, kSgd}, 3},
        TensorCase{{"llama_2x2", grouped_llama(), 2, 1, kSteady}, 2},
        TensorCase{
            {"resnet_2", resnet_with(NormKind::kBatch), 1, 0, kSgd}, 2, false, kSwitchedRelus},
        TensorCase{
            {"resnet_3x2", resnet_with(NormKind::kBatch), 2, 2, kSgd}, 3, false, kSwitchedRelus},
        TensorCase{{"resnet_group_4", resnet_with(NormKind::kGroup, {12, 16}), 1, 0, kSgd},
                   4,
                   false,
                   kSwitchedRelus},
        TensorCase{{"resnet_group_3", resnet_with(NormKind::kGroup, {12, 16}), 1, 0, kSgd},
                   3,
                   false,
                   kSwitchedRelus},
        TensorCase{
            {"resnet_no_norm", resnet_with(NormKind::kNone), 2, 0, kSgd}, 2, false, kSwitchedRelus},
        TensorCase{{.name = "resnet_lars_average_recomputed",
                    .model = resnet_with(NormKind::kBatch),
                    .replicas = 2,
                    .optimizer = kScaledSgd,
                    .average = 0.9,
                    .recompute = {"stage*"}},
                   2,
                   false,
                   kSwitchedRelus},
        TensorCase{{.name = "resnet_bf16",
                    .model = resnet_with(NormKind::kBatch),
                    .optimizer = kSgd,
                    .compute = kBF16},
                   3,
                   false,
                   0.4},  // 0.31 on processors without AVX-512, which round otherwise
        TensorCase{{"mlp_lars", mlp(), 2, 0, kScaledSgd}, 3},
        TensorCase{{"gpt_lamb", kTwoLayers, 1, 0, kScaledAdam}, 2},
        TensorCase{{.name = "llama_lamb_sequence",
                    .model = grouped_llama(),
                    .optimizer = kScaledAdam,
                    .average = 0.9},
                   3,
                   true},
        TensorCase{{.name = "gpt_adapters",
                    .model = kTwoLayers,
                    .optimizer = kSgd,
                    .adapters = {.rank = 3, .dropout = 0.1}},
                   3},
        TensorCase{
            {.name = "llama_adapters_sequence",
             .model = grouped_llama(),
             .replicas = 2,
             .optimizer = kScaledAdam,
             .adapters = {.rank = 2, .dropout = 0.1, .target_modules = {"*.query", "*.contract"}},
             .recompute = {"layer1"}},
            2,
            true},
        TensorCase{{.name = "gpt_frozen",
                    .model = kTwoLayers,
                    .optimizer = kSgd,
                    .freeze = {"embedding.token*", "layer0*"}},
                   3},
        TensorCase{{.name = "mlp_average",
                    .model = mlp(),
                    .replicas = 2,
                    .optimizer = kSgd,
                    .average = 0.9},
                   2},
        TensorCase{{.name = "gpt_average_smoothed",
                    .model = kTwoLayers,
                    .optimizer = kSteady,
                    .average = 0.9,
                    .smoothing = 0.2},
                   3},
        TensorCase{{.name = "gpt_sequence", .model = kTwoLayers, .optimizer = kSgd}, 3, true},
        TensorCase{{.name = "gpt_sequence_recomputed",
                    .model = kUntied,
                    .replicas = 2,
                    .optimizer = kSteady,
                    .smoothing = 0.1,
                    .recompute = {"layer*"}},
                   2,
                   true},
        TensorCase{{.name = "llama_sequence_bf16",
                    .model = grouped_llama(),
                    .optimizer = kSgd,
                    .compute = kBF16},
                   3,
                   true,
                   0.05},
        TensorCase{{.name = "llama_recomputed",
                    .model = grouped_llama(),
                    .optimizer = kSgd,
                    .recompute = {"layer*"}},
                   2},
        TensorCase{{.name = "gpt_recomputed",
                    .model = kTwoLayers,
                    .replicas = 2,
                    .optimizer = kSgd,
                    .recompute = {"*"}},
                   2},
        TensorCase{{.name = "gpt_bf16", .model = kTwoLayers, .optimizer = kSgd, .compute = kBF16},
                   2,
                   false,
                   0.05},
        TensorCase{
            {.name = "llama_fp16", .model = grouped_llama(), .optimizer = kSgd, .compute = kFP16},
            3,
            false,
            0.01}),
    [](const auto& which) { return which.param.recipe.name; });

// Along `shard` each rank keeps another part of the optimizer's state of its part of the tensors,
// and further on in ZeRO of its gradients and weights.
class TensorParallelShards : public testing::TestWithParam<TensorCase> {};

TEST_P(TensorParallelShards, HaveTheBitsOfReplicasThatKeepAll) {
  TensorCase replicas = GetParam(), shards = GetParam();
  replicas.recipe.replicas *= replicas.shards;
  replicas.shards = 1;
  const Outcome whole = train_cut(replicas).front();
  for (const int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    shards.zero_stage = stage;
    const std::vector<Outcome> outcomes = train_cut(shards);
    expect_same_state(outcomes.front(), whole);
    for (const Outcome& rank : outcomes) expect_same_figures(rank, whole);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, TensorParallelShards,
    testing::Values(
        TensorCase{.recipe = {"mlp", mlp(), 1, 0, kSgd}, .ranks = 4, .shards = 2},
        TensorCase{.recipe = {"resnet", resnet_with(NormKind::kBatch), 1, 0, kSgd},
                   .ranks = 3,
                   .shards = 2},
        TensorCase{.recipe = {"gpt", kTwoLayers, 2, 0, kSteady}, .ranks = 3, .shards = 2},
        TensorCase{.recipe = {"mlp_lars", mlp(), 2, 0, kScaledSgd}, .ranks = 2, .shards = 3},
        TensorCase{.recipe = {"gpt_lamb", kUntied, 1, 0, kScaledAdam}, .ranks = 3, .shards = 2},
        TensorCase{.recipe = {"one", kUntied, 1, 3, kSteady}, .ranks = 1, .shards = 3},
        TensorCase{.recipe = {.name = "gpt_average_frozen_bf16",
                              .model = kTwoLayers,
                              .optimizer = kSteady,
                              .freeze = {"embedding.token*", "layer0*"},
                              .average = 0.9,
                              .compute = kBF16,
                              .reduce = DType::kBF16},
                   .ranks = 2,
                   .shards = 3},
        TensorCase{.recipe = {"llama_sequence", grouped_llama(), 2, 0, kSgd},
                   .ranks = 3,
                   .sequence = true,
                   .shards = 2},
        TensorCase{.recipe = {.name = "llama_adapters",
                              .model = grouped_llama(),
                              .optimizer = kSteady,
                              .adapters = {.rank = 2}},
                   .ranks = 2,
                   .shards = 2},
        TensorCase{.recipe = {.name = "llama_fp16",
                              .model = grouped_llama(),
                              .optimizer = kSteady,
                              .compute = kFP16},
                   .ranks = 2,
                   .shards = 4},
        TensorCase{.recipe = {"moe", kMixture, 1, 0, kSteady}, .ranks = 3, .shards = 2},
        TensorCase{.recipe = {.name = "moe_twice_lamb_average_frozen",
                              .model = kMixture,
                              .replicas = 2,
                              .micro_batch_size = 2,
                              .optimizer = kScaledAdam,
                              .freeze = {"layer0*", "*experts.3*"},
                              .average = 0.9},
                   .ranks = 2,
                   .shards = 2},
        TensorCase{.recipe = {.name = "moe_adapters_bf16",
                              .model = kMixture,
                              .optimizer = kSteady,
                              .compute = kBF16,
                              .adapters = {.rank = 2, .dropout = 0.1},
                              .recompute = {"layer1"}},
                   .ranks = 2,
                   .shards = 2}),
    [](const auto& which) { return which.param.recipe.name; });

TEST(TensorParallel, KeepsItsShardOfItsPartOnly) {
  TensorCase task{{.name = "gpt", .model = kTwoLayers, .optimizer = kSgd}, 2};
  const std::uint64_t part = create(task, {.size = 4}).value()->optimizer_bytes(4);
  task.shards = 2;
  std::uint64_t sum = 0;
  for (const Rank rank : {Rank{0}, Rank{2}}) {
    const auto made = create(task, {.rank = rank, .size = 4}).value();
    EXPECT_FALSE(made->holds_all());
    EXPECT_LT(made->optimizer_bytes(4), part * 2 / 3);
    sum += made->optimizer_bytes(4);
  }
  EXPECT_EQ(sum, part);
}

TEST(TensorParallel, SharesOutTheGradientsOfItsPart) {
  TensorCase task{{.name = "gpt", .model = kTwoLayers, .optimizer = kSgd}, 2};
  task.shards = 4;  // with 8 slices in turns an owner holds one sum
  const std::uint64_t part = create(task, {.size = 8}).value()->gradient_bytes(8);
  task.zero_stage = 2;
  const auto made = create(task, {.size = 8}).value();
  EXPECT_EQ(made->gradient_bytes(8), part / 4);
  EXPECT_EQ(made->ranks_in_turns(4), 4);
}

// Of what is cut a quarter, of what is not a half.
TEST(TensorParallel, HoldsItsShardOfTheWeightsOfItsPartOnly) {
  const TensorCase task{.recipe = {.name = "gpt", .model = kUntied, .optimizer = kSgd},
                        .ranks = 2,
                        .shards = 2,
                        .zero_stage = 3};
  std::vector<std::uint64_t> held(4), parts(4);
  on_ranks(4, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const Rank me = communicator->group().rank;
    const auto index = static_cast<std::size_t>(to_int(me));
    const auto strategy = create(task, communicator->group()).value();
    const comm::LeafOwners owners = owners_of(*strategy, 4);
    ASSERT_TRUE(strategy->enter(communicator, owners));
    Outcome outcome;
    const auto mine = slices_of(owners, strategy->first_of_replica(me));
    ASSERT_TRUE(make_step(*strategy, task.recipe, mine, 1, {}, outcome));
    for (const models::Parameter& parameter : strategy->model().parameters())
      EXPECT_EQ(parameter.tensor.storage().data(), nullptr) << parameter.name;
    for (const StateSlice& slice : strategy->model_state())
      held[index] += slice.tensor.bytes.size();
    parts[index] = static_cast<std::uint64_t>(strategy->model().parameter_count()) * sizeof(float);
  });
  for (std::size_t part = 0; part < 2; ++part) {
    EXPECT_EQ(held[part] + held[part + 2], parts[part]);
    EXPECT_LT(std::max(held[part], held[part + 2]), parts[part] * 2 / 3);
  }
}

TEST(TensorParallel, RefusesOneShardOfGradients) {
  TensorCase task{{.name = "gpt", .model = kTwoLayers, .optimizer = kSgd}, 2};
  task.zero_stage = 2;
  const auto made = create(task, {.size = 4});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kUnsupported);
}

TEST(TensorParallel, OfOneRankHasTheBitsOfPlainTraining) {
  const TensorCase task{{.name = "gpt", .model = kTwoLayers, .replicas = 2, .optimizer = kSgd}, 1};
  expect_same_bits(train_cut(task).front(), train_plain(task.recipe, kStepsOfTensors));
}

TEST(TensorParallel, RefusesWorkersThatAreNoMultiple) {
  const auto made = create({{.name = "mlp", .model = mlp()}, 2}, {.size = 3});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kInvalid);
}

TEST(TensorParallel, HoldsItsPartOnly) {
  const TensorCase task{{.name = "gpt", .model = kTwoLayers, .optimizer = kSgd}, 4};
  const auto made = create(task, {.size = 4});
  ASSERT_TRUE(made);
  const std::int64_t whole = model_of(task.recipe)->parameter_count();
  EXPECT_EQ((*made)->parameter_count(), whole);
  EXPECT_LT((*made)->model().parameter_count(), whole / 3);
  EXPECT_LT((*made)->optimizer_bytes(4), static_cast<std::uint64_t>(whole) * 4 / 3);
}

TEST(TensorParallel, NamesWhoDoesNotCome) {
  const TensorCase task{{.name = "gpt", .model = kTwoLayers}};
  expect_names_who_does_not_come(
      [&](const comm::Group& group, const comm::OpOptions& op) { return create(task, group, op); },
      kContext);
}

}  // namespace
}  // namespace muster::parallel::cut
