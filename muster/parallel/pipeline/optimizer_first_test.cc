// Stages that update before they know the norms of all have the bits of stages that wait, whether
// gradients are clipped or not, and nothing is left of an update that should not have been.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <semaphore>
#include <string>
#include <vector>

#include "muster/parallel/pipeline/pipeline.h"
#include "muster/parallel/testing/cut_training.h"
#include "muster/parallel/testing/state_bytes.h"

namespace muster::parallel::cut {
namespace {

struct EarlyCase {
  Recipe recipe;
  std::vector<std::int32_t> blocks;  // of each chunk; two stages
  layout::PipelineKind schedule = layout::PipelineKind::kZbH1;
  std::int32_t shards = 1;
};
void PrintTo(const EarlyCase& task, std::ostream* out) { *out << task.recipe.name; }

constexpr std::int32_t kEarlyStages = 2;

PipelineOptions early_options(const EarlyCase& task, double max_grad_norm, bool optimizer_first) {
  const auto chunks = static_cast<std::int32_t>(task.blocks.size());
  std::int32_t blocks = 0;
  for (const std::int32_t count : task.blocks) blocks += count;
  const SliceOptions plain = options_of(task.recipe);
  PipelineOptions options;
  options.schedule.kind = task.schedule;
  options.schedule.stages = kEarlyStages;
  options.schedule.chunks_per_stage = chunks / kEarlyStages;
  options.chunks = *layout::partition_by_hand(task.blocks, {blocks, chunks});
  options.passes = {plain.micro_batch_size, plain.seed};
  options.max_grad_norm = max_grad_norm;
  options.optimizer_first = optimizer_first;
  options.compute = plain.compute;
  options.bucket_sizes = plain.bucket_sizes;
  return options;
}

std::unique_ptr<Pipeline> early_pipeline(const EarlyCase& task, const PipelineOptions& options,
                                         const comm::Group& group) {
  const auto place = place_in(along(layout::Axis::kPipeline, kEarlyStages, task.shards), group);
  return Pipeline::create(*recomputed_model_of(task.recipe), kSeed, optimizer_of(task.recipe),
                          options, place.value(), system_clock())
      .value();
}

struct EarlyOutcome {
  Outcome outcome;  // the state, on the first rank
  std::vector<double> norms;
  std::vector<std::optional<std::int32_t>> rollbacks;
};

// By rank.
std::vector<EarlyOutcome> train_early(const EarlyCase& task, const PipelineOptions& options,
                                      const std::vector<int>& steps, double learning_rate) {
  const std::int32_t ranks = kEarlyStages * task.shards * task.recipe.replicas;
  std::vector<EarlyOutcome> all(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const Rank me = communicator->group().rank;
    EarlyOutcome& mine = all[static_cast<std::size_t>(to_int(me))];
    const auto strategy = early_pipeline(task, options, communicator->group());
    const comm::LeafOwners owners = owners_of(*strategy, ranks);
    ASSERT_TRUE(strategy->enter(communicator, owners));
    const auto slices = slices_of(owners, strategy->first_of_replica(me));
    for (const int step : steps) {
      const auto report = try_step(*strategy, task.recipe, slices, step, {}, {}, learning_rate);
      ASSERT_TRUE(report) << report.error().message;
      mine.norms.push_back(report->grad_norm);
      mine.rollbacks.push_back(report->rollbacks);
      mine.outcome.loss = report->loss;
    }
    const auto state = strategy->gather_state(Rank{0});
    ASSERT_TRUE(state) << state.error().message;
    if (me != Rank{0}) return;
    add(mine.outcome, state->model);
    add(mine.outcome, state->optimizer);
  });
  return all;
}

constexpr double kEarlyRate = 0.02;

class OptimizerFirst : public ::testing::TestWithParam<EarlyCase> {
 protected:
  // Rollbacks by step, with this largest norm; the bits are those of stages that wait.
  std::vector<std::int32_t> rollbacks(double max_grad_norm, const std::vector<int>& steps,
                                      double learning_rate = kEarlyRate) {
    const EarlyCase& task = GetParam();
    const auto waiting =
        train_early(task, early_options(task, max_grad_norm, false), steps, learning_rate);
    const auto early =
        train_early(task, early_options(task, max_grad_norm, true), steps, learning_rate);
    expect_same_state(early.front().outcome, waiting.front().outcome);
    for (std::size_t rank = 0; rank < early.size(); ++rank) {
      EXPECT_EQ(early[rank].outcome.loss, waiting[rank].outcome.loss);
      EXPECT_EQ(early[rank].norms, waiting[rank].norms);
      EXPECT_EQ(early[rank].rollbacks, early.front().rollbacks) << "all ranks know of all";
      for (const auto& count : waiting[rank].rollbacks) EXPECT_FALSE(count);
    }
    std::vector<std::int32_t> found;
    for (const auto& count : early.front().rollbacks) found.push_back(count.value_or(-1));
    return found;
  }
  std::vector<double> norms(const std::vector<int>& steps, double learning_rate) {
    const PipelineOptions waits = early_options(GetParam(), 0, false);
    return train_early(GetParam(), waits, steps, learning_rate).front().norms;
  }
};

// They have 40, 33 and 7 samples, and so gradients of other norms.
const std::vector<int> kEarlySteps = {1, 2, 3};

TEST_P(OptimizerFirst, NothingIsRolledBackWhereNothingIsClipped) {
  EXPECT_THAT(rollbacks(0, kEarlySteps), ::testing::Each(0));
  EXPECT_THAT(rollbacks(1e9, kEarlySteps), ::testing::Each(0));
}

// Of two stages one has less than 0.8 of the norm of both.
TEST_P(OptimizerFirst, IsRolledBackWhereTheNormOfAllIsClipped) {
  const double whole = norms({1}, kEarlyRate).front();
  EXPECT_THAT(rollbacks(0.8 * whole, {1}), ::testing::Each(::testing::Gt(0)));
}

// Where weights stay as they are, norms do not depend on what was clipped before.
TEST_P(OptimizerFirst, SomeStepsAreClippedAndOthersNot) {
  const std::vector<double> of_steps = norms(kEarlySteps, 0);
  const auto [least, most] = std::ranges::minmax(of_steps);
  const double max_grad_norm = std::max(0.8 * most, (least + most) / 2);
  const auto found = rollbacks(max_grad_norm, kEarlySteps, 0);
  ASSERT_EQ(found.size(), of_steps.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i] > 0, of_steps[i] > max_grad_norm) << "step " << kEarlySteps[i];
  EXPECT_THAT(found,
              ::testing::AllOf(::testing::Contains(0), ::testing::Contains(::testing::Gt(0))));
  rollbacks(max_grad_norm, kEarlySteps);  // and the bits where weights change as well
}

// Who has too much alone does not begin.
TEST_P(OptimizerFirst, NothingIsRolledBackWhereEachStageIsClippedByItself) {
  EXPECT_THAT(rollbacks(1e-9, kEarlySteps), ::testing::Each(0));
}

const models::GptSpec kEarlyGpt = gpt(3, true);

INSTANTIATE_TEST_SUITE_P(
    Models, OptimizerFirst,
    ::testing::Values(
        EarlyCase{{"mlp_zb_h1", mlp()}, {2, 2}},
        EarlyCase{{"mlp_zb_v", mlp(), 2}, {1, 1, 1, 1}, layout::PipelineKind::kZbV},
        EarlyCase{{"mlp_1f1b", mlp()}, {1, 3}, layout::PipelineKind::k1F1B},
        EarlyCase{{"gpt_tied_zb_h1", kEarlyGpt}, {2, 3}},
        EarlyCase{{"gpt_tied_zb_v", kEarlyGpt}, {1, 1, 2, 1}, layout::PipelineKind::kZbV},
        EarlyCase{
            {.name = "mlp_average_frozen", .model = mlp(), .freeze = {"layer0*"}, .average = 0.9},
            {2, 2}},
        EarlyCase{{.name = "mlp_sgd", .model = mlp(), .optimizer = optim::SgdSpec{}}, {2, 2}},
        EarlyCase{{.name = "mlp_lars", .model = mlp(), .optimizer = optim::LarsSpec{}}, {2, 2}},
        EarlyCase{{"mlp_sharded", mlp()}, {2, 2}, layout::PipelineKind::kZbH1, 2}),
    [](const auto& which) { return which.param.recipe.name; });

const EarlyCase kPlainEarly{{"mlp", mlp()}, {1, 3}};

// What a rank has seen of a step that fails.
struct Failed {
  int before_update = 0, rolled_back = 0;
  std::string message;
  bool same_state = false;
};

struct Watched {
  std::function<void()> before_update = [] {};
  std::function<Status(std::uint64_t)> check_sums = {};
};

Failed fail_step(Pipeline& strategy, Batch& batch, const Watched& watched = {}) {
  Failed failed;
  const StateBytes before = read_state(strategy);
  const auto report = strategy.step({.batch = batch.step,
                                     .step = Step{1},
                                     .learning_rate = 0.02,
                                     .flags = {},
                                     .before_update =
                                         [&] {
                                           ++failed.before_update;
                                           watched.before_update();
                                           return Duration{};
                                         },
                                     .rolled_back = [&] { ++failed.rolled_back; },
                                     .check_sums = watched.check_sums});
  EXPECT_FALSE(report);
  if (!report) failed.message = report.error().message;
  failed.same_state = read_state(strategy) == before;
  return failed;
}

at::Tensor weight_of(Pipeline& strategy, const std::string& block) {
  for (const models::Parameter& parameter : strategy.model().parameters())
    if (parameter.name == block + ".linear.weight") return parameter.tensor.detach();
  return {};
}

// The first stage's gradient is infinite alone: large samples meet weights of zero, and what comes
// back to them large weights, in one and the same product.
void make_overflow(Pipeline& strategy, Batch& batch, Rank rank) {
  for (std::size_t i = 0; i < batch.tensors.size(); i += 2) batch.tensors[i].mul_(1e15);
  if (rank == Rank{0}) {
    weight_of(strategy, "layer0").zero_();
    for (const models::Parameter& parameter : strategy.model().parameters())
      if (parameter.name == "layer0.linear.bias") parameter.tensor.detach().fill_(0.5);
  } else {
    weight_of(strategy, "layer2").mul_(1e33);
  }
}

TEST(OptimizerFirstInAStep, WhatIsNotFiniteIsNamedAndNothingIsUpdated) {
  std::vector<Failed> failed(2);
  on_ranks(2, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const Rank me = communicator->group().rank;
    const auto strategy =
        early_pipeline(kPlainEarly, early_options(kPlainEarly, 0, true), communicator->group());
    const comm::LeafOwners owners = owners_of(*strategy, 2);
    ASSERT_TRUE(strategy->enter(communicator, owners));
    Batch batch(40, slices_of(owners, Rank{0}), 1);
    make_overflow(*strategy, batch, me);
    failed[static_cast<std::size_t>(to_int(me))] = fail_step(*strategy, batch);
  });
  for (const Failed& rank : failed) {
    EXPECT_THAT(rank.message, ::testing::HasSubstr("the gradient of layer0.linear.weight is not"));
    EXPECT_TRUE(rank.same_state);
  }
  EXPECT_EQ(failed[0].before_update, 0) << "it knows itself";
  EXPECT_EQ(failed[0].rolled_back, 0);
  EXPECT_EQ(failed[1].before_update, 1);
  EXPECT_EQ(failed[1].rolled_back, 1);
}

TEST(OptimizerFirstInAStep, WhoNeverHearsOfTheOthersRollsBack) {
  Failed alone;
  std::counting_semaphore<2> begun(0);  // the update of who is left, or its step is over
  on_ranks(2, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const auto strategy =
        early_pipeline(kPlainEarly, early_options(kPlainEarly, 0, true), communicator->group());
    const comm::LeafOwners owners = owners_of(*strategy, 2);
    ASSERT_TRUE(strategy->enter(communicator, owners));
    Batch batch(40, slices_of(owners, Rank{0}), 1);
    if (communicator->group().rank == Rank{0}) {
      alone = fail_step(*strategy, batch, {.before_update = [&] { begun.release(); }});
      begun.release();
      return;
    }
    const auto leave = [&](std::uint64_t) -> Status {
      begun.acquire();
      communicator->abort({ErrorCode::kUnavailable, "gone before the norms"});
      return fail(ErrorCode::kUnavailable, "gone before the norms");
    };
    const Failed other = fail_step(*strategy, batch, {.check_sums = leave});
    EXPECT_EQ(other.before_update, 0);
    EXPECT_TRUE(other.same_state);
  });
  EXPECT_EQ(alone.before_update, 1);
  EXPECT_EQ(alone.rolled_back, 1);
  EXPECT_TRUE(alone.same_state);
}

}  // namespace
}  // namespace muster::parallel::cut
