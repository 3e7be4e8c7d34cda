// Models over sequences of which each rank has some positions against the same on one rank, in f64:
// losses and weights of ten steps, with dropout, and what passes keep and send.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "muster/base/glob.h"
#include "muster/models/create.h"
#include "muster/models/memory_meter.h"
#include "muster/models/testing/gradient_check.h"
#include "muster/parallel/context/context_ranks.h"
#include "muster/parallel/tensor/tensor_ranks.h"
#include "muster/parallel/testing/on_ranks.h"

namespace muster::parallel {
namespace {

using models::ContextAttention;
using models::Model;

constexpr int kSharedSteps = 10;
constexpr std::int64_t kSharedSamples = 3;
constexpr std::int64_t kSharedPositions = 48;  // a multiple of 2 · 2, 2 · 3 and 2 · 4
constexpr double kSharedRate = 2e-4;           // at higher ones ten steps make rounding larger
constexpr double kSharedRounding = 1e-10;

struct SharedCase {
  std::string name;
  models::ModelSpec model;
  double smoothing = 0;
  models::AdapterSpec adapters = {};
  std::vector<std::string> recompute = {};  // patterns
};
using SharedCaseOn = std::tuple<SharedCase, ContextAttention, int>;

std::string name_of_case(const testing::TestParamInfo<SharedCaseOn>& info) {
  const auto& [one, attention, ranks] = info.param;
  const std::string way = attention == ContextAttention::kRing ? "_ring_" : "_ulysses_";
  return one.name + way + std::to_string(ranks);
}
void PrintTo(const SharedCase& one, std::ostream* out) { *out << one.name; }

std::unique_ptr<Model> model_in_double(const SharedCase& one) {
  at::set_num_threads(1);
  auto model = models::create_model(one.model, one.adapters).value();
  for (const models::NamedBlock& named : model->blocks()) models::fill_in_double(*named.block);
  model->smooth_labels(one.smoothing);
  model->recompute([&](const std::string& block) { return matches_any(one.recompute, block); });
  return model;
}

at::Tensor some_tokens(int step, std::int64_t factor) {
  return (torch::arange(kSharedSamples * kSharedPositions) * (factor + 2 * step) % 11)
      .view({kSharedSamples, kSharedPositions})
      .to(torch::kUInt8);
}

// Of all ranks; one for each of them.
at::Tensor sum_of_ranks(const at::Tensor& own, const ContextRanks* ranks) {
  if (ranks == nullptr) return own;
  const std::vector<at::Tensor> copies(static_cast<std::size_t>(ranks->share().size), own);
  return ranks->exchange(at::stack(copies), "sums").sum(0);
}

struct Steps {
  std::vector<at::Tensor> losses;
  std::int64_t correct = 0;  // in the last step
  at::Tensor evaluation;
};

models::LossSum loss_of(Model& model, models::PassContext context, int step) {
  const at::Tensor logits = model.forward(some_tokens(step, 5), context);
  const at::Tensor targets = some_tokens(step, 7);
  return context.training ? model.loss_sum(logits, targets)
                          : model.evaluation_loss_sum(logits, targets);
}

// Plain gradient descent. `ranks`: that share the sequences; null: nobody.
Steps descend(Model& model, const ContextRanks* ranks) {
  Steps steps;
  for (int step = 0; step < kSharedSteps; ++step) {
    const auto random = RandomStream(1, "pass", static_cast<std::uint64_t>(step));
    const models::LossSum loss = loss_of(model, {.random = random}, step);
    steps.losses.push_back(sum_of_ranks(loss.sum.detach(), ranks));
    steps.correct = sum_of_ranks(loss.correct, ranks).item<std::int64_t>();
    const auto gradients = torch::autograd::grad({loss.sum}, model.parameter_tensors());
    const at::NoGradGuard no_grad;
    for (std::size_t p = 0; p < gradients.size(); ++p)
      model.parameters()[p].tensor.sub_(sum_of_ranks(gradients[p], ranks), kSharedRate);
  }
  const at::NoGradGuard no_grad;
  const models::PassContext context{.training = false, .random = RandomStream(1, "none")};
  steps.evaluation = sum_of_ranks(loss_of(model, context, kSharedSteps).sum, ranks);
  return steps;
}

class SharedSequences : public testing::TestWithParam<SharedCaseOn> {};

TEST_P(SharedSequences, TrainAsWholeOnesDo) {
  const auto& [one, attention, size] = GetParam();
  SharedCase plain = one;
  plain.recompute = {};
  const auto whole = model_in_double(plain);
  const Steps expected = descend(*whole, nullptr);
  on_ranks(size, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const auto ranks = std::make_shared<ContextRanks>(
        models::TensorShare{to_int(communicator->group().rank), size}, attention,
        comm::OpOptions{});
    ranks->use(communicator);
    const auto model = model_in_double(one);
    ASSERT_TRUE(model->share_sequences(ranks));
    const Steps found = descend(*model, ranks.get());
    for (int step = 0; step < kSharedSteps; ++step)
      expect_close(found.losses[static_cast<std::size_t>(step)],
                   expected.losses[static_cast<std::size_t>(step)], kSharedRounding, "loss");
    EXPECT_EQ(found.correct, expected.correct);
    expect_close(found.evaluation, expected.evaluation, kSharedRounding, "evaluation");
    for (std::size_t p = 0; p < model->parameters().size(); ++p)
      expect_close(model->parameters()[p].tensor.detach(), whole->parameters()[p].tensor.detach(),
                   kSharedRounding, model->parameters()[p].name);
  });
}

at::Tensor part_here(const at::Tensor& whole, const models::TensorCut& cut) {
  if (!cut.is_part()) return whole;
  std::vector<at::Tensor> runs;
  for (const Share run : cut.runs) runs.push_back(whole.narrow(cut.axis, run.begin, run.size()));
  return at::cat(runs, cut.axis);
}

// The heads of a part can be dealt to 3 ranks at most.
TEST_P(SharedSequences, TrainAsWholeOnesDoWithTensorsInParts) {
  constexpr std::int32_t kParts = 2;
  const auto& [one, attention, sharers] = GetParam();
  if (one.adapters.rank > 0 || sharers > 3) return;
  const auto whole = model_in_double(one);
  const Steps expected = descend(*whole, nullptr);
  on_ranks(kParts * sharers, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const std::int32_t me = to_int(communicator->group().rank);
    const auto parts =
        std::make_shared<TensorRanks>(models::TensorShare{me % kParts, kParts}, comm::OpOptions{});
    const auto ranks = std::make_shared<ContextRanks>(models::TensorShare{me / kParts, sharers},
                                                      attention, comm::OpOptions{});
    parts->use(communicator->split(me / kParts, me).value());
    ranks->use(communicator->split(me % kParts, me).value());
    const auto model = model_in_double(one);
    ASSERT_TRUE(model->split(parts));
    ASSERT_TRUE(model->share_sequences(ranks));
    const Steps found = descend(*model, ranks.get());
    for (int step = 0; step < kSharedSteps; ++step)
      expect_close(found.losses[static_cast<std::size_t>(step)],
                   expected.losses[static_cast<std::size_t>(step)], kSharedRounding, "loss");
    EXPECT_EQ(found.correct, expected.correct);
    expect_close(found.evaluation, expected.evaluation, kSharedRounding, "evaluation");
    for (std::size_t p = 0; p < model->parameters().size(); ++p) {
      const models::Parameter& parameter = model->parameters()[p];
      expect_close(parameter.tensor.detach(),
                   part_here(whole->parameters()[p].tensor.detach(), parameter.cut),
                   kSharedRounding, parameter.name);
    }
  });
}

// Its heads can be dealt to 2, 3 and 4 ranks.
models::GptSpec shared_gpt(bool tied) {
  return {.vocabulary = 11,
          .context = kSharedPositions,
          .width = 24,
          .layers = 2,
          .heads = 12,
          .hidden = 20,
          .dropout = 0.2,
          .tied_head = tied};
}

models::LlamaSpec shared_llama(std::int64_t kv_heads) {
  return {.vocabulary = 11,
          .context = kSharedPositions,
          .width = 48,
          .layers = 2,
          .heads = 24,
          .kv_heads = kv_heads,
          .hidden = 20,
          .dropout = 0.1};
}

INSTANTIATE_TEST_SUITE_P(
    Models, SharedSequences,
    testing::Combine(testing::Values(SharedCase{"gpt", shared_gpt(true), 0.1},
                                     SharedCase{"llama", shared_llama(12)},
                                     SharedCase{.name = "gpt_recomputed",
                                                .model = shared_gpt(false),
                                                .recompute = {"*"}},
                                     SharedCase{.name = "llama_adapted",
                                                .model = shared_llama(24),
                                                .adapters = {.rank = 2, .dropout = 0.2}}),
                     testing::Values(ContextAttention::kUlysses, ContextAttention::kRing),
                     testing::Values(1, 2, 3, 4)),
    name_of_case);

// What a pass over sequences of so many positions keeps for backward, and takes at most, on this
// rank.
struct Taken {
  std::int64_t kept = 0;
  std::int64_t peak = 0;
};

Taken memory_of_pass(std::int64_t positions, const std::shared_ptr<ContextRanks>& ranks) {
  at::set_num_threads(1);
  auto model = models::create_model(models::GptSpec{.vocabulary = 32,
                                                    .context = positions,
                                                    .width = 64,
                                                    .layers = 3,
                                                    .heads = 8,
                                                    .dropout = 0.1})
                   .value();
  model->initialize(1);
  if (ranks) {
    EXPECT_TRUE(model->share_sequences(ranks));
  }
  const at::Tensor tokens = torch::zeros({2, positions}, torch::kUInt8);
  models::PassContext context{.random = RandomStream(1, "pass")};
  Taken taken;
  const models::MemoryMeter meter;
  const models::LossSum loss = model->loss_sum(model->forward(tokens, context), tokens);
  taken.kept = meter.held();
  (void)torch::autograd::grad({loss.sum}, model->parameter_tensors());
  taken.peak = meter.peak();
  return taken;
}

// What an operation between ranks lets go of last on a thread of its own is not seen to go, now and
// then.
Taken least_of_passes(std::int64_t positions, const std::shared_ptr<ContextRanks>& ranks) {
  Taken least = memory_of_pass(positions, ranks);
  for (int pass = 1; pass < 4; ++pass) {
    const Taken taken = memory_of_pass(positions, ranks);
    least = {std::min(least.kept, taken.kept), std::min(least.peak, taken.peak)};
  }
  return least;
}

// Sequences eight times as long on eight ranks take no more memory than one rank's.
TEST(SharedSequences, TakeAsMuchMemoryAsThePositionsOfOneRank) {
  constexpr std::int64_t kRanks = 8, kHere = 64;
  const Taken one = memory_of_pass(kHere, nullptr);
  for (const ContextAttention attention : {ContextAttention::kUlysses, ContextAttention::kRing})
    on_ranks(kRanks, [&](const std::shared_ptr<comm::Communicator>& communicator) {
      const auto ranks = std::make_shared<ContextRanks>(
          models::TensorShare{to_int(communicator->group().rank), kRanks}, attention,
          comm::OpOptions{});
      ranks->use(communicator);
      const Taken shared = least_of_passes(kRanks * kHere, ranks);
      EXPECT_LT(static_cast<double>(shared.kept), 1.06 * static_cast<double>(one.kept));
      EXPECT_LT(static_cast<double>(shared.peak), 1.08 * static_cast<double>(one.peak));
    });
}

TEST(SharedSequences, AreRefusedWhereTensorRanksHaveCutThem) {
  const auto model = models::create_model(shared_gpt(true)).value();
  ASSERT_TRUE(model->split(
      std::make_shared<const TensorRanks>(models::TensorShare{0, 2}, comm::OpOptions{}, true)));
  const Status shared = model->share_sequences(std::make_shared<const ContextRanks>(
      models::TensorShare{0, 2}, ContextAttention::kRing, comm::OpOptions{}));
  ASSERT_FALSE(shared);
  EXPECT_EQ(shared.error().code, ErrorCode::kUnsupported);
}

TEST(SharedSequences, AreRefusedWhereABlockNeedsAllPositions) {
  const models::ModelSpec specs[] = {
      models::MlpSpec{}, models::ResNetSpec{},
      models::MoeSpec{.body = models::GptSpec{.layers = 2}, .sparse_step = 2}};
  const std::string blocks[] = {"layer0", "stem", "layer1"};
  const auto ranks = std::make_shared<const ContextRanks>(
      models::TensorShare{0, 2}, ContextAttention::kRing, comm::OpOptions{});
  for (std::size_t i = 0; i < std::size(specs); ++i) {
    const Status shared = models::create_model(specs[i]).value()->share_sequences(ranks);
    ASSERT_FALSE(shared);
    EXPECT_EQ(shared.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(shared.error().message.find("block " + blocks[i]), std::string::npos)
        << shared.error().message;
  }
}

}  // namespace
}  // namespace muster::parallel
